#include "troupe/kernels/cpu/resource_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <troupe/devices/hash_table.hpp>
#include <troupe/graph/component_shapes.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

// ---- What calls hand over -------------------------------------------------------------------------------------------

// Row after row of all inputs, each in memory of its own: they leave at different times.
std::vector<Tensor> rows_of(KernelContext& c) {
  std::vector<Tensor> items;
  std::int64_t rows = kUnknown;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& shape = c.input(i).shape();
    if (shape.rank() < 1) invalid_argument("component {} is a scalar: it has no rows", i);
    if (rows != kUnknown && shape.dim(0) != rows)
      invalid_argument("component {} has {} rows, but those before it {}", i, shape.dim(0), rows);
    rows = shape.dim(0);
  }
  for (std::int64_t row = 0; row < rows; ++row)
    for (int i = 0; i < c.num_inputs(); ++i) {
      const Tensor& from = c.input(i);
      const Tensor one = from.rows(row, row + 1);
      items.push_back(one.reshaped(Shape(from.shape().dims().subspan(1))).clone());
    }
  return items;
}

Kernel call_values(const KernelInit& init) {
  return [in_rows = init.attributes.boolean("rows")](KernelContext& c) {
    if (in_rows) return c.set_output(0, make_list(rows_of(c)));
    std::vector<Tensor> items;
    for (int i = 0; i < c.num_inputs(); ++i) items.push_back(c.input(i));
    c.set_output(0, make_list(std::move(items)));
  };
}

// Copies a tensor to the front of a larger one of the same rank, dimension by dimension from `dim` on. Sizes and
// offsets are in elements.
template <class T>
void copy_to_front(const Shape& from_shape, const T* from, const Shape& to_shape, T* to, int dim = 0) {
  if (dim == from_shape.rank()) {
    *to = *from;
    return;
  }
  std::int64_t from_stride = 1, to_stride = 1;
  for (int d = dim + 1; d < from_shape.rank(); ++d) from_stride *= from_shape.dim(d), to_stride *= to_shape.dim(d);
  if (from_stride == to_stride) {
    std::copy_n(from, from_shape.dim(dim) * from_stride, to);
    return;
  }
  for (std::int64_t i = 0; i < from_shape.dim(dim); ++i)
    copy_to_front(from_shape, from + i * from_stride, to_shape, to + i * to_stride, dim + 1);
}

// Of the components `first`, `first` + `stride`, ... of elements: that of all, or with `padded` the largest sizes.
Shape shape_of_rows(std::span<const Tensor> items, std::size_t first, std::size_t stride, const Shape& declared,
                    bool padded) {
  if (items.empty()) {
    std::vector<std::int64_t> dims(declared.dims().begin(), declared.dims().end());
    if (padded) std::ranges::replace(dims, kUnknown, 0);
    if (!declared.has_rank() || std::ranges::count(dims, kUnknown) > 0)
      invalid_argument("no elements of component {}, whose shape is not known, cannot be rows", first);
    return Shape(dims);
  }
  const Shape& one = items[first].shape();
  std::vector<std::int64_t> dims(one.dims().begin(), one.dims().end());
  for (std::size_t i = first; i < items.size(); i += stride) {
    const Shape& other = items[i].shape();
    if (padded ? other.rank() != one.rank() : !(other == one))
      invalid_argument("component {} of the elements is {} and {}: they cannot be rows{}", first, one.to_string(),
                       other.to_string(), padded ? "" : "; a PaddingFIFOQueue fills them up");
    for (int d = 0; d < other.rank(); ++d) {
      std::int64_t& most = dims[static_cast<std::size_t>(d)];
      most = std::max(most, other.dim(d));
    }
  }
  return Shape(dims);
}

// Of tensors whose last dimension has `bytes`; none: of strings.
template <class T>
void copy_rows(std::span<const Tensor> items, std::size_t first, std::size_t stride, const Shape& shape,
               const Shape& bytes, T* to) {
  const Shape row = shape.concatenated(bytes);
  for (std::size_t i = first; i < items.size(); i += stride, to += row.num_elements())
    copy_to_front(items[i].shape().concatenated(bytes), reinterpret_cast<const T*>(items[i].raw()), row, to);
}

// Every `stride`-th item from `first` on, as rows.
Tensor stacked_items(KernelContext& c, std::span<const Tensor> items, std::size_t first, std::size_t stride,
                     DType dtype, const Shape& declared, bool padded) {
  const Shape shape = shape_of_rows(items, first, stride, declared, padded);
  Tensor out = c.allocate(dtype, Shape{static_cast<std::int64_t>(items.size() / stride)}.concatenated(shape));
  if (dtype == DType::string) {
    copy_rows(items, first, stride, shape, Shape{}, out.mutable_data<std::string>());
    return out;
  }
  if (padded) std::memset(out.mutable_raw(), 0, out.num_bytes());
  copy_rows(items, first, stride, shape, Shape{static_cast<std::int64_t>(size_of(dtype))}, out.mutable_raw());
  return out;
}

// A node may declare other components than its resource has.
std::span<const Tensor> checked_items(const Tensor& list, const std::vector<DType>& types, bool in_rows) {
  const auto items = list_items(list);
  if (in_rows ? !types.empty() && items.size() % types.size() != 0 : items.size() != types.size())
    invalid_argument("the answer has {} tensors, but elements of {} are expected", items.size(), types.size());
  for (std::size_t i = 0; i < items.size() && !types.empty(); ++i)
    if (const DType wanted = types[i % types.size()]; items[i].dtype() != wanted)
      invalid_argument("component {} of the answer is {}, but {} is expected", i % types.size(), name(items[i].dtype()),
                       name(wanted));
  return items;
}

Kernel call_results(const KernelInit& init) {
  const std::vector<DType> types(init.output_types.begin(), init.output_types.end());
  return [types, shapes = unpacked_shapes(init.attributes.integers("shapes"), types.size()),
          in_rows = init.attributes.boolean("rows"), padded = init.attributes.boolean("padded")](KernelContext& c) {
    const auto items = checked_items(c.input(0), types, in_rows);
    for (std::size_t i = 0; i < types.size(); ++i)
      c.set_output(static_cast<int>(i),
                   in_rows ? stacked_items(c, items, i, types.size(), types[i], shapes[i], padded) : Tensor(items[i]));
  };
}

// A call where no pass has made a request of it.
Kernel cannot_wait(const KernelInit&) {
  return [](KernelContext&) { fail(Code::unimplemented, "the body of a loop or branch cannot wait: call it outside"); };
}

// ---- Gradients ------------------------------------------------------------------------------------------------------

bool is_mean(const KernelInit& init) {
  const std::string& reduction = init.attributes.string("reduction");
  if (reduction != "mean" && reduction != "sum")
    invalid_argument("the reduction of an accumulator must be mean or sum, not '{}'", reduction);
  return reduction == "mean";
}

// ((g0 + g1) + g2 ...) / n in the order of their arrival, as in training (docs/design/numerics.md); 16 bits in f32,
// rounded once.
template <class T>
Kernel mean_of_gradients(const KernelInit& init) {
  return [mean = is_mean(init)](KernelContext& c) {
    using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
    const auto gradients = list_items(c.input(0));
    if (gradients.empty()) invalid_argument("the answer has no gradient");
    for (const Tensor& gradient : gradients)
      if (!(gradient.shape() == gradients[0].shape())) invalid_argument("the gradients have several shapes");
    if (gradients.size() == 1) return c.set_output(0, gradients[0]);
    const Tensor& first = gradients[0];
    Tensor out = c.allocate(first.dtype(), first.shape());
    T* to = out.mutable_data<T>();
    std::vector<const T*> from;
    for (const Tensor& gradient : gradients) from.push_back(gradient.data<T>());
    const auto count = static_cast<Sum>(mean ? from.size() : 1);
    c.parallelism().parallel_for(out.num_elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Sum sum = static_cast<Sum>(from[0][i]);
        for (std::size_t g = 1; g < from.size(); ++g) sum += static_cast<Sum>(from[g][i]);
        to[i] = static_cast<T>(sum / count);
      }
    });
    c.set_output(0, std::move(out));
  };
}

// Of each row that a gradient touches, ascending: the sum, for a mean divided by the number of gradients that touch it.
template <class T>
Kernel mean_of_sparse_gradients(const KernelInit& init) {
  return [mean = is_mean(init)](KernelContext& c) {
    using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
    struct Row {
      std::vector<const T*> parts{};
      std::size_t gradients = 0, last = 0;  // how many touch it, and the last one, counted from 1
    };
    const auto items = list_items(c.input(0));
    if (items.empty() || items.size() % 2 != 0) invalid_argument("the answer has no sparse gradients");
    const Shape row_shape(items[1].shape().dims().subspan(1));
    const std::int64_t width = row_shape.num_elements();
    std::map<std::int64_t, Row> rows;
    for (std::size_t g = 0; g < items.size(); g += 2) {
      const auto indices = items[g].values<std::int64_t>();
      for (std::size_t i = 0; i < indices.size(); ++i) {
        Row& row = rows[indices[i]];
        row.parts.push_back(items[g + 1].data<T>() + static_cast<std::int64_t>(i) * width);
        if (std::exchange(row.last, g + 1) != g + 1) ++row.gradients;
      }
    }
    Tensor indices = c.allocate(DType::i64, Shape{std::ssize(rows)});
    Tensor values = c.allocate(items[1].dtype(), Shape{std::ssize(rows)}.concatenated(row_shape));
    std::int64_t* index = indices.mutable_data<std::int64_t>();
    T* to = values.mutable_data<T>();
    for (const auto& [number, row] : rows) {
      *index++ = number;
      const auto count = static_cast<Sum>(mean ? row.gradients : 1);
      for (std::int64_t i = 0; i < width; ++i) {
        Sum sum = static_cast<Sum>(row.parts[0][i]);
        for (std::size_t p = 1; p < row.parts.size(); ++p) sum += static_cast<Sum>(row.parts[p][i]);
        *to++ = static_cast<T>(sum / count);
      }
    }
    c.set_output(0, std::move(indices));
    c.set_output(1, std::move(values));
  };
}

// ---- Hash tables ----------------------------------------------------------------------------------------------------

HashTable& table_of(KernelContext& c) { return resource_of<HashTable>(c.variable(0)); }

template <class Run>
void add_table(KernelRegistry& registry, const char* op, Run run) {
  add_untyped(registry, op, [run](const KernelInit&) -> Kernel { return run; });
}

void register_hash_tables(KernelRegistry& registry) {
  add_table(registry, "HashTableInsert", [](KernelContext& c) { table_of(c).insert(c.input(1), c.input(2)); });
  add_table(registry, "HashTableRemove", [](KernelContext& c) { table_of(c).remove(c.input(1)); });
  add_table(registry, "HashTableFind",
            [](KernelContext& c) { c.set_output(0, table_of(c).find(c.input(1), c.input(2), c.allocator())); });
  add_table(registry, "HashTableExport", [](KernelContext& c) {
    c.set_output(0, table_of(c).keys());
    c.set_output(1, table_of(c).values());
  });
  add_table(registry, "HashTableImport", [](KernelContext& c) { table_of(c).assign_all(c.input(1), c.input(2)); });
  add_table(registry, "HashTableSize", [](KernelContext& c) { c.set_output(0, Tensor::scalar(table_of(c).size())); });
}

}  // namespace

void register_resource_kernels(KernelRegistry& registry) {
  for (const char* call : {"QueueEnqueue", "QueueEnqueueMany", "QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo",
                           "QueueClose", "QueueSize", "QueueIsClosed", "AccumulatorApplyGradient",
                           "AccumulatorTakeGradient", "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient",
                           "AccumulatorSetGlobalStep", "AccumulatorNumAccumulated"})
    add_untyped(registry, call, cannot_wait);
  add_untyped(registry, "CallValues", call_values);
  add_untyped(registry, "CallResults", call_results);
  add_factories(registry, "MeanOfGradients", FloatTypes{},
                []<class T>(const KernelInit& init) { return mean_of_gradients<T>(init); });
  add_factories(registry, "MeanOfSparseGradients", FloatTypes{},
                []<class T>(const KernelInit& init) { return mean_of_sparse_gradients<T>(init); });
  register_hash_tables(registry);
}

}  // namespace troupe
