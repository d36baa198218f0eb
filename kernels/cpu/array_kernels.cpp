// Kernels that slice, join, reshape and create tensors (kernels/common/array.hpp).
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/range_count.hpp>
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
  add_untyped(registry, "Reshape", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, reshape(c.input(0), checked_dims(c.input(1)))); };
  });
  add_untyped(registry, "ReshapeLike", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) { c.set_output(0, c.input(0).reshaped(c.input(1).shape())); };
  });
  add_untyped(registry, "Squeeze", [](const KernelInit& init) -> Kernel {
    return [axes = init.attributes.integers("axes")](KernelContext& c) { c.set_output(0, squeeze(c.input(0), axes)); };
  });
  add_untyped(registry, "ExpandDims", [](const KernelInit& init) -> Kernel {
    return
        [axis = init.attributes.integer("axis")](KernelContext& c) { c.set_output(0, expand_dims(c.input(0), axis)); };
  });
}

std::vector<Tensor> all_inputs(KernelContext& context) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) inputs.push_back(context.input(i));
  return inputs;
}

void set_outputs(KernelContext& context, std::vector<Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) context.set_output(static_cast<int>(i), std::move(outputs[i]));
}

void register_joins(KernelRegistry& registry) {
  add_untyped(registry, "Concat", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      c.set_output(0, concat(c.device(), all_inputs(c), axis));
    };
  });
  add_untyped(registry, "Stack", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      std::vector<Tensor> rows = all_inputs(c);
      for (Tensor& row : rows) row = expand_dims(row, axis);
      c.set_output(0, concat(c.device(), rows, axis));
    };
  });
  add_untyped(registry, "Split", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, split(c.device(), c.input(0), axis, equal_parts(c.input(0).shape(), axis, count)));
    };
  });
  add_untyped(registry, "SplitSizes", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), sizes = init.attributes.integers("sizes")](KernelContext& c) {
      set_outputs(c, split(c.device(), c.input(0), axis, sizes));
    };
  });
  add_untyped(registry, "Unstack", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, unstack(c.device(), c.input(0), axis, count));
    };
  });
}

void register_boxes(KernelRegistry& registry) {
  add_untyped(registry, "Transpose", [](const KernelInit& init) -> Kernel {
    return [perm = init.attributes.integers("perm")](KernelContext& c) {
      c.set_output(0, transpose(c.device(), c.input(0), perm));
    };
  });
  add_untyped(registry, "Slice", [](const KernelInit& init) -> Kernel {
    return [begin = init.attributes.integers("begin"), size = init.attributes.integers("size")](KernelContext& c) {
      c.set_output(0, slice(c.device(), c.input(0), begin, size));
    };
  });
  add_untyped(registry, "SliceGrad", [](const KernelInit& init) -> Kernel {
    return [begin = init.attributes.integers("begin")](KernelContext& c) {
      c.set_output(0, slice_grad(c.device(), c.input(0), c.input(1).shape(), begin));
    };
  });
  add_factories(registry, "Pad", DataTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [before = init.attributes.integers("before"), after = init.attributes.integers("after"),
            value = scalar_of<T>(init.attributes.real("value"))](KernelContext& c) {
      c.set_output(0, pad(c.device(), c.input(0), before, after, value));
    };
  });
  add_untyped(registry, "Tile", [](const KernelInit& init) -> Kernel {
    return [multiples = init.attributes.integers("multiples")](KernelContext& c) {
      c.set_output(0, tile(c.device(), c.input(0), multiples));
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

template <class T>
Tensor range(Device& device, T start, T limit, T delta) {
  Tensor out = device.allocator().tensor(dtype_of<T>, Shape{range_count(start, limit, delta)});
  auto values = out.mutable_values<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      values[i] = static_cast<T>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(delta));
    else
      values[i] = static_cast<T>(static_cast<double>(start) + static_cast<double>(i) * static_cast<double>(delta));
  }
  return out;
}

void register_makers(KernelRegistry& registry) {
  add_untyped(registry, "Fill", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      if (c.input(1).num_elements() != 1)
        invalid_argument("Fill: the value must be a scalar, not {}", c.input(1).shape().to_string());
      c.set_output(0, broadcast_to(c.device(), c.input(1).reshaped(Shape{}), checked_shape(checked_dims(c.input(0)))));
    };
  });
  add_kernels(registry, "Range",
              Types<float, double, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>{},
              []<class T>(KernelContext& c) {
                c.set_output(0, range<T>(c.device(), c.input(0).item<T>(), c.input(1).item<T>(), c.input(2).item<T>()));
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
  register_boxes(registry);
  register_makers(registry);
}

}  // namespace troupe
