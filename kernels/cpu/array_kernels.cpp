// Kernels that slice, join, reshape and create tensors (kernels/common/array.hpp).
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/range_count.hpp>
#include <troupe/kernels/common/slices.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

// A single-element tensor of T from a real attribute.
template <class T>
Tensor scalar_of(double value) {
  return Tensor::scalar<T>(static_cast<T>(static_cast<Compute<T>>(value)));
}

void register_views(KernelRegistry& registry) {
  add_untyped(registry, "Reshape", [](const KernelInit& init) -> Kernel {
    return [copy_zeros = init.attributes.boolean("copy_zeros")](KernelContext& c) {
      c.set_output(0, reshape(c.input(0), checked_dims(c.input(1)), copy_zeros));
    };
  });
  add_untyped(registry, "ReshapeLike", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, c.input(0).reshaped(c.input(1).shape())); };
  });
  add_untyped(registry, "Squeeze", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, squeeze(c.input(0), checked_dims(c.input(1)))); };
  });
  add_untyped(registry, "ExpandDims", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, expand_dims(c.input(0), checked_dims(c.input(1)))); };
  });
}

std::vector<Tensor> all_inputs(KernelContext& context) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) inputs.push_back(context.input(i));
  return inputs;
}

// The list of inputs is kept for the thread's next call: in steady state it takes no memory.
Tensor concat_inputs(KernelContext& context, std::int64_t axis) {
  thread_local std::vector<Tensor> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) inputs.push_back(context.input(i));
  struct Clear {
    ~Clear() { inputs.clear(); }
  } const clear;
  return concat(context.device(), inputs, axis);
}

void set_outputs(KernelContext& context, std::vector<Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) context.set_output(static_cast<int>(i), std::move(outputs[i]));
}

void register_joins(KernelRegistry& registry) {
  add_untyped(registry, "Concat", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) { c.set_output(0, concat_inputs(c, axis)); };
  });
  add_untyped(registry, "Stack", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      std::vector<Tensor> rows = all_inputs(c);
      for (Tensor& row : rows) row = expand_dims(row, {&axis, 1});
      c.set_output(0, concat(c.device(), rows, axis));
    };
  });
  add_untyped(registry, "Split", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, split(c.device(), c.input(0), axis, equal_parts(c.input(0).shape(), axis, count)));
    };
  });
  add_untyped(registry, "SplitSizes", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, split(c.device(), c.input(0), axis, checked_sizes(c.input(1), count)));
    };
  });
  add_untyped(registry, "Unstack", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, unstack(c.device(), c.input(0), axis, count));
    };
  });
}

StridedBox strided_box(KernelContext& c, int first) {
  return {checked_dims(c.input(first)), checked_dims(c.input(first + 1)), checked_dims(c.input(first + 2)),
          checked_dims(c.input(first + 3))};
}

void register_slices(KernelRegistry& registry) {
  add_untyped(registry, "Slice", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, slice(c.device(), c.input(0), checked_dims(c.input(1)), checked_dims(c.input(2))));
    };
  });
  add_untyped(registry, "SliceGrad", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, slice_grad(c.device(), c.input(0), c.input(1).shape(), checked_dims(c.input(2))));
    };
  });
  add_untyped(registry, "StridedSlice", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, strided_slice(c.device(), c.input(0), strided_box(c, 1))); };
  });
  add_untyped(registry, "StridedSliceGrad", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      c.set_output(0, strided_slice_grad(c.device(), c.input(0), c.input(1).shape(), strided_box(c, 2)));
    };
  });
  add_untyped(registry, "Pad", [](const KernelInit& init) -> Kernel {
    return [mode = parse_pad_mode(init.attributes.string("mode"))](KernelContext& c) {
      c.set_output(0, pad(c.device(), c.input(0), checked_dims(c.input(1)), mode, c.input(2)));
    };
  });
  add_untyped(registry, "Tile", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, tile(c.device(), c.input(0), checked_dims(c.input(1)))); };
  });
}

void register_boxes(KernelRegistry& registry) {
  add_untyped(registry, "Transpose", [](const KernelInit& init) -> Kernel {
    return [perm = init.attributes.integers("perm")](KernelContext& c) {
      c.set_output(0, transpose(c.device(), c.input(0), perm));
    };
  });
  add_untyped(registry, "BroadcastTo", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const Shape shape = broadcast(c.input(0).shape(), checked_shape(checked_dims(c.input(1))));
      c.set_output(0, c.input(0).shape() == shape ? c.input(0) : broadcast_to(c.device(), c.input(0), shape));
    };
  });
  add_untyped(registry, "BroadcastLike", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const Shape& shape = c.input(1).shape();
      c.set_output(0, c.input(0).shape() == shape ? c.input(0) : broadcast_to(c.device(), c.input(0), shape));
    };
  });
}

Tensor zeros_like(Device& device, const Tensor& x) {
  if (x.dtype() != DType::list) return make_zeros(device, x.dtype(), x.shape());
  std::vector<Tensor> items;
  for (const Tensor& item : list_items(x)) items.push_back(zeros_like(device, item));
  return make_list(std::move(items));
}

// out[i] = start + i * delta: modulo 2^64 for integers, else in f64.
Tensor range(Device& device, const Tensor& start, const Tensor& limit, const Tensor& delta) {
  return dispatch(RealTypes{}, start.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const auto number = [](const Tensor& t) { return static_cast<C>(t.item<T>()); };
    const C first = number(start), step = number(delta);
    Tensor out = device.allocator().tensor(start.dtype(), Shape{range_count<C>(first, number(limit), step)});
    auto values = out.mutable_values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_integral_v<T>)
        values[i] = static_cast<T>(static_cast<std::uint64_t>(first) + i * static_cast<std::uint64_t>(step));
      else
        values[i] = static_cast<T>(
            static_cast<C>(static_cast<double>(first) + static_cast<double>(i) * static_cast<double>(step)));
    }
    return out;
  });
}

void register_makers(KernelRegistry& registry) {
  add_untyped(registry, "Fill", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      if (c.input(1).num_elements() != 1)
        invalid_argument("Fill: the value must be a scalar, not {}", c.input(1).shape().to_string());
      c.set_output(0, broadcast_to(c.device(), c.input(1).reshaped(Shape{}), checked_shape(checked_dims(c.input(0)))));
    };
  });
  add_untyped(registry, "Range", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, range(c.device(), c.input(0), c.input(1), c.input(2))); };
  });
  add_untyped(registry, "ZerosLike", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, zeros_like(c.device(), c.input(0))); };
  });
  add_kernels(registry, "OnesLike", DataTypes{}, []<class T>(KernelContext& c) {
    c.set_output(0, broadcast_to(c.device(), scalar_of<T>(1), c.input(0).shape()));
  });
  add_untyped(registry, "Shape", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      const auto dims = c.input(0).shape().dims();
      c.set_output(0, Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(dims.size())}, dims));
    };
  });
  add_untyped(registry, "Size", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, Tensor::scalar<std::int64_t>(c.input(0).num_elements())); };
  });
}

}  // namespace

void register_array_kernels(KernelRegistry& registry) {
  register_views(registry);
  register_joins(registry);
  register_slices(registry);
  register_boxes(registry);
  register_makers(registry);
}

}  // namespace troupe
