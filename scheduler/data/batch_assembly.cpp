#include "troupe/scheduler/data/batch_assembly.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <troupe/graph/data/composite.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Copies `from` into the corner of a box of `shape` that begins at element `at` of `to`.
template <class Copy>
void copy_corner(const Shape& from, const Shape& shape, Copy&& copy) {
  const int rank = shape.rank();
  const std::int64_t width = rank == 0 ? 1 : from.dim(rank - 1);
  std::array<std::int64_t, kMaxRank> at{};
  std::int64_t source = 0;
  if (from.num_elements() == 0) return;
  while (true) {
    std::int64_t target = 0;
    for (int d = 0; d < rank; ++d) target = target * shape.dim(d) + at[static_cast<std::size_t>(d)];
    copy(source, target, width);
    source += width;
    int d = rank - 2;
    while (d >= 0 && ++at[static_cast<std::size_t>(d)] == from.dim(d)) at[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

void fill(Tensor& tensor, const Tensor& value) {
  const bool zero = !value.valid();
  if (tensor.dtype() == DType::string) {
    if (!zero) std::fill_n(tensor.mutable_data<std::string>(), tensor.num_elements(), *value.data<std::string>());
    return;
  }
  if (zero) {
    if (tensor.num_bytes() > 0) std::memset(tensor.mutable_raw(), 0, tensor.num_bytes());
    return;
  }
  const std::size_t size = size_of(tensor.dtype());
  for (std::size_t at = 0; at < tensor.num_bytes(); at += size)
    std::memcpy(tensor.mutable_raw() + at, value.raw(), size);
}

void place(const Tensor& element, std::int64_t row, const Shape& shape, Tensor& out) {
  const std::int64_t first = row * shape.num_elements();
  if (element.dtype() == DType::string) {
    copy_corner(element.shape(), shape, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(element.data<std::string>() + from, count, out.mutable_data<std::string>() + first + to);
    });
    return;
  }
  const auto size = static_cast<std::int64_t>(size_of(element.dtype()));
  copy_corner(element.shape(), shape, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    std::memcpy(out.mutable_raw() + (first + to) * size, element.raw() + from * size,
                static_cast<std::size_t>(count * size));
  });
}

Tensor make_tensor(Allocator* memory, DType dtype, const Shape& shape) {
  return memory && dtype != DType::string ? memory->tensor(dtype, shape) : Tensor(dtype, shape);
}

// One component of all elements, with a leading dimension.
Tensor rows_of(const data::BatchStage& batch, const std::string& stage, const BatchComponent& component, std::size_t at,
               std::span<const data::Element> elements, Allocator* memory) {
  Shape shape = elements.empty() ? component.shape : elements[0][at].shape();
  bool alike = true;
  for (const data::Element& element : elements) {
    alike = alike && element[at].shape() == shape;
    if (!alike && batch.uneven != data::Uneven::pad)
      fail(Code::data_loss, "stage '{}': '{}' is {} in one element and {} in another: use padded_batch", stage,
           component.name, shape.to_string(), element[at].shape().to_string());
    for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, std::max(shape.dim(d), element[at].shape().dim(d)));
  }
  for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, std::max<std::int64_t>(shape.dim(d), 0));
  Tensor tensor = make_tensor(memory, component.dtype, Shape{std::ssize(elements)}.concatenated(shape));
  if (!alike) fill(tensor, batch.padding.empty() ? Tensor() : batch.padding[at]);
  for (std::size_t row = 0; row < elements.size(); ++row)
    place(elements[row][at], static_cast<std::int64_t>(row), shape, tensor);
  return tensor;
}

// The rows of one component of all elements, one after the other, and where those of each begin and end.
std::pair<Tensor, Tensor> joined(const BatchComponent& component, std::size_t at,
                                 std::span<const data::Element> elements, Allocator* memory) {
  Tensor splits = make_tensor(memory, DType::i64, Shape{std::ssize(elements) + 1});
  std::int64_t* ends = splits.mutable_data<std::int64_t>();
  *ends = 0;
  for (const data::Element& element : elements) {
    ends[1] = ends[0] + element[at].shape().dim(0);
    ++ends;
  }
  Shape shape = component.shape;
  shape.set_dim(0, *ends);
  Tensor values = make_tensor(memory, component.dtype, shape);
  std::int64_t to = 0;
  for (const data::Element& element : elements) {
    const Tensor& from = element[at];
    if (from.dtype() == DType::string)
      std::ranges::copy(from.values<std::string>(), values.mutable_data<std::string>() + to);
    else if (from.num_bytes() > 0)
      std::memcpy(values.mutable_raw() + static_cast<std::size_t>(to) * size_of(from.dtype()), from.raw(),
                  from.num_bytes());
    to += from.num_elements();
  }
  return {std::move(values), std::move(splits)};
}

// Of vectors: element i becomes row i of a sparse matrix.
void append_sparse_rows(const BatchComponent& component, std::size_t at, std::span<const data::Element> elements,
                        Allocator* memory, std::vector<Tensor>& out) {
  auto [values, splits] = joined(component, at, elements, memory);
  Tensor indices = make_tensor(memory, DType::i64, Shape{values.num_elements(), 2});
  std::int64_t* to = indices.mutable_data<std::int64_t>();
  std::int64_t longest = 0;
  for (std::size_t row = 0; row < elements.size(); ++row) {
    const std::int64_t length = elements[row][at].num_elements();
    longest = std::max(longest, length);
    for (std::int64_t i = 0; i < length; ++i) {
      *to++ = static_cast<std::int64_t>(row);
      *to++ = i;
    }
  }
  out.push_back(std::move(indices));
  out.push_back(std::move(values));
  out.push_back(Tensor::vector<std::int64_t>({std::ssize(elements), longest}));
}

// Throws data_loss unless the parts of a sparse element are of one tensor.
void check_sparse(const std::string& stage, const std::string& name, std::span<const Tensor> parts) {
  const std::span<const std::int64_t> indices = parts[0].values<std::int64_t>(), dims = parts[2].values<std::int64_t>();
  if (parts[0].shape().dim(0) != parts[1].num_elements())
    fail(Code::data_loss, "stage '{}': sparse element '{}' has {} indices and {} values", stage, name,
         parts[0].shape().dim(0), parts[1].num_elements());
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (const std::int64_t size = dims[i % dims.size()]; indices[i] < 0 || indices[i] >= size)
      fail(Code::data_loss,
           "stage '{}': sparse element '{}' has the index {} in a dimension of {}: row {} of its indices", stage, name,
           indices[i], size, i / dims.size());
}

// Of sparse elements: their indices with the element's number in front.
void append_sparse(const std::string& stage, const data::Composite& composite, const BatchSchema& schema,
                   std::span<const data::Element> elements, Allocator* memory, std::vector<Tensor>& out) {
  const std::size_t at = composite.first;
  for (const data::Element& element : elements) check_sparse(stage, composite.name, std::span(element).subspan(at, 3));
  Tensor values = joined(schema[at + 1], at + 1, elements, memory).first;
  const std::int64_t rank = schema[at].shape.dim(1);
  Tensor indices = make_tensor(memory, DType::i64, Shape{values.num_elements(), rank + 1});
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank) + 1, 0);
  dims[0] = std::ssize(elements);
  std::int64_t* to = indices.mutable_data<std::int64_t>();
  for (std::size_t row = 0; row < elements.size(); ++row) {
    const std::int64_t* from = elements[row][at].data<std::int64_t>();
    for (std::int64_t i = 0; i < elements[row][at + 1].num_elements(); ++i) {
      *to++ = static_cast<std::int64_t>(row);
      to = std::copy_n(from + i * rank, rank, to);
    }
    for (std::size_t d = 1; d < dims.size(); ++d)
      dims[d] = std::max(dims[d], elements[row][at + 2].data<std::int64_t>()[d - 1]);
  }
  out.push_back(std::move(indices));
  out.push_back(std::move(values));
  out.push_back(Tensor::of<std::int64_t>(Shape{std::ssize(dims)}, std::span<const std::int64_t>(dims)));
}

}  // namespace

std::vector<Tensor> assemble_batch(const data::BatchStage& batch, const std::string& stage, const BatchSchema& schema,
                                   std::span<const data::Element> elements, Allocator* memory) {
  std::vector<Tensor> out;
  const bool sparse = batch.uneven == data::Uneven::sparse, ragged = batch.uneven == data::Uneven::ragged;
  if (!sparse && !ragged) {
    for (std::size_t i = 0; i < schema.size(); ++i)
      out.push_back(rows_of(batch, stage, schema[i], i, elements, memory));
    return out;
  }
  for (const data::Composite& composite : data::composites_of(schema)) {
    const std::size_t at = composite.first;
    if (composite.kind == data::Composite::Kind::sparse) {
      append_sparse(stage, composite, schema, elements, memory, out);
    } else if (schema[at].shape.fully_known()) {
      out.push_back(rows_of(batch, stage, schema[at], at, elements, memory));
    } else if (sparse) {
      append_sparse_rows(schema[at], at, elements, memory, out);
    } else {
      auto [values, splits] = joined(schema[at], at, elements, memory);
      out.push_back(std::move(values));
      out.push_back(std::move(splits));
    }
  }
  return out;
}

}  // namespace troupe
