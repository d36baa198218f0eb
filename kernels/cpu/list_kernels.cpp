// Lists of tensors (messages/tensor_list.hpp).
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

Tensor taken(KernelContext& c, int index) {
  Tensor list = c.take_input(index);
  return list.valid() ? std::move(list) : c.input(index);
}

// The place of an item, counted from the end if negative; `end`: how many places there are.
std::int64_t place(KernelContext& c, int input, std::int64_t end) {
  const std::int64_t given = c.device().read(c.input(input)).item<std::int64_t>();
  const std::int64_t index = given < 0 ? given + end : given;
  if (index < 0 || index >= end) fail(Code::out_of_range, "index {} is outside of a list of {}", given, end);
  return index;
}

std::vector<Tensor> checked_items(const Tensor& list, DType dtype) {
  const auto items = list_items(list);
  for (const Tensor& item : items)
    if (item.dtype() != dtype)
      invalid_argument("a list with a tensor of {} is read as {}", name(item.dtype()), name(dtype));
  return {items.begin(), items.end()};
}

Tensor stacked(KernelContext& c, DType dtype, const Shape& item) {
  std::vector<Tensor> items = checked_items(c.input(0), dtype);
  if (items.empty()) {
    if (!item.has_rank() || !item.fully_known())
      invalid_argument("an empty list cannot be stacked: the shape of its items is not known");
    return c.allocate(dtype, Shape{0}.concatenated(item));
  }
  const Shape shape = items.front().shape();
  for (Tensor& t : items) {
    if (t.shape() != shape)
      invalid_argument("items of shapes {} and {} cannot be stacked", shape.to_string(), t.shape().to_string());
    t = expand_dims(t, std::array<std::int64_t, 1>{0});
  }
  return concat(c.device(), items, 0);
}

// Zeros like an item, which may be a list.
Tensor zero_item(Device& device, const Tensor& item) {
  if (item.dtype() != DType::list) return make_zeros(device, item.dtype(), item.shape());
  std::vector<Tensor> zeros;
  for (const Tensor& inner : list_items(item)) zeros.push_back(zero_item(device, inner));
  return make_list(std::move(zeros));
}

Tensor sum_of(KernelContext& c, const Tensor& a, const Tensor& b);

std::vector<Tensor> sums_of(KernelContext& c, const Tensor& a, const Tensor& b) {
  const auto x = list_items(a), y = list_items(b);
  if (x.size() != y.size()) invalid_argument("lists of {} and {} tensors cannot be added", x.size(), y.size());
  std::vector<Tensor> sums;
  for (std::size_t i = 0; i < x.size(); ++i) sums.push_back(sum_of(c, x[i], y[i]));
  return sums;
}

Tensor sum_of(KernelContext& c, const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::list) return make_list(sums_of(c, a, b));
  if (a.dtype() != b.dtype() || a.shape() != b.shape())
    invalid_argument("{}{} and {}{} cannot be added", name(a.dtype()), a.shape().to_string(), name(b.dtype()),
                     b.shape().to_string());
  if (!is_floating(a.dtype())) return a;  // no gradient
  Tensor out = c.allocate(a.dtype(), a.shape());
  dispatch(FloatTypes{}, a.dtype(), [&]<class T>() {
    const T *x = a.data<T>(), *y = b.data<T>();
    T* to = out.mutable_data<T>();
    c.parallelism().parallel_for(out.num_elements(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
      binary_stretch(x + begin, true, y + begin, true, to + begin, end - begin, AddOp{});
    });
  });
  return out;
}

}  // namespace

void register_list_kernels(KernelRegistry& registry) {
  add_untyped(registry, "ListOf", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      std::vector<Tensor> items;
      for (int i = 0; i < c.num_inputs(); ++i) items.push_back(c.input(i));
      c.set_output(0, make_list(std::move(items)));
    };
  });
  add_untyped(registry, "ListEmpty",
              [](const KernelInit&) -> Kernel { return [](KernelContext& c) { c.set_output(0, make_list({})); }; });
  add_untyped(registry, "ListSize", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, Tensor::scalar(static_cast<std::int64_t>(list_items(c.input(0)).size())));
    };
  });
  add_untyped(registry, "ListGet", [](const KernelInit& init) -> Kernel {
    return [dtype = init.output_types[0]](KernelContext& c) {
      const auto items = list_items(c.input(0));
      const Tensor& item = items[static_cast<std::size_t>(place(c, 1, std::ssize(items)))];
      if (item.dtype() != dtype) invalid_argument("the item is {}, not {}", name(item.dtype()), name(dtype));
      c.set_output(0, item);
    };
  });
  add_untyped(registry, "ListInsert", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const std::int64_t at = place(c, 2, std::ssize(list_items(c.input(0))) + 1);
      Tensor item = c.input(1), list = taken(c, 0);
      std::vector<Tensor>& items = mutable_list_items(list);
      items.insert(items.begin() + at, std::move(item));
      c.set_output(0, std::move(list));
    };
  });
  add_untyped(registry, "ListErase", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const std::int64_t at = place(c, 1, std::ssize(list_items(c.input(0))));
      Tensor list = taken(c, 0);
      std::vector<Tensor>& items = mutable_list_items(list);
      items.erase(items.begin() + at);
      c.set_output(0, std::move(list));
    };
  });
  add_untyped(registry, "ListEraseGrad", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const auto before = list_items(c.input(0));
      const std::int64_t at = place(c, 1, std::ssize(before));
      Tensor zeros = zero_item(c.device(), before[static_cast<std::size_t>(at)]);
      if (list_items(c.input(2)).size() + 1 != before.size())
        invalid_argument("there are {} gradients for a list of {} less one", list_items(c.input(2)).size(),
                         before.size());
      Tensor list = taken(c, 2);
      std::vector<Tensor>& items = mutable_list_items(list);
      items.insert(items.begin() + at, std::move(zeros));
      c.set_output(0, std::move(list));
    };
  });
  add_untyped(registry, "ListConcatGrad", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), dtype = init.input_types[0]](KernelContext& c) {
      const std::vector<Tensor> items = checked_items(c.input(1), dtype);
      std::vector<std::int64_t> sizes;
      for (const Tensor& item : items) sizes.push_back(item.shape().dim(checked_axis(axis, item.shape().rank())));
      c.set_output(0, make_list(split(c.device(), c.input(0), axis, sizes)));
    };
  });
  add_untyped(registry, "ListStack", [](const KernelInit& init) -> Kernel {
    return [dtype = init.output_types[0], item = init.attributes.shape("item")](KernelContext& c) {
      c.set_output(0, stacked(c, dtype, item));
    };
  });
  add_untyped(registry, "ListConcat", [](const KernelInit& init) -> Kernel {
    return [dtype = init.output_types[0], axis = init.attributes.integer("axis")](KernelContext& c) {
      c.set_output(0, concat(c.device(), checked_items(c.input(0), dtype), axis));
    };
  });
  add_untyped(registry, "ListAdd", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      Tensor sum = c.input(0);
      for (int i = 1; i < c.num_inputs(); ++i) sum = sum_of(c, sum, c.input(i));
      c.set_output(0, std::move(sum));
    };
  });
  add_untyped(registry, "ListUnstack", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const Tensor& x = c.input(0);
      if (x.shape().rank() < 1) invalid_argument("a scalar has no rows");
      c.set_output(0, make_list(unstack(c.device(), x, 0, static_cast<std::size_t>(x.shape().dim(0)))));
    };
  });
}

}  // namespace troupe
