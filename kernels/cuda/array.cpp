// Slicing, joining and rearranging tensors. Twin of kernels/cpu/array_kernels.cpp; both compute in
// kernels/common/array.cpp, which moves elements with the functions of movement.cpp in this folder.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/range_count.hpp>
#include <troupe/kernels/cuda/array_launch.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/host_input.hpp>

namespace troupe {
namespace {

void register_views(KernelRegistry& registry) {
  add_cuda(registry, "Reshape", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [shape = HostInput(init, 1), copy_zeros = init.attributes.boolean("copy_zeros")](KernelContext& c) {
      const Tensor dims = shape.get(c);
      c.set_output(0, reshape(c.input(0), checked_dims(dims), copy_zeros));
    };
  });
  add_cuda(registry, "ReshapeLike", kDataDTypes,
           [](KernelContext& c) { c.set_output(0, c.input(0).reshaped(c.input(1).shape())); });
  const auto add_view = [&](const char* op, Tensor (*view)(const Tensor&, Dims)) {
    add_cuda(registry, op, kDataDTypes, [view](const KernelInit& init) -> Kernel {
      return [view, axes = HostInput(init, 1)](KernelContext& c) {
        const Tensor list = axes.get(c);
        c.set_output(0, view(c.input(0), checked_dims(list)));
      };
    });
  };
  add_view("Squeeze", squeeze);
  add_view("ExpandDims", expand_dims);
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
  add_cuda(registry, "Concat", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      c.set_output(0, concat(c.device(), all_inputs(c), axis));
    };
  });
  add_cuda(registry, "Stack", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis")](KernelContext& c) {
      std::vector<Tensor> rows = all_inputs(c);
      for (Tensor& row : rows) row = expand_dims(row, {&axis, 1});
      c.set_output(0, concat(c.device(), rows, axis));
    };
  });
  add_cuda(registry, "Split", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, split(c.device(), c.input(0), axis, equal_parts(c.input(0).shape(), axis, count)));
    };
  });
  add_cuda(registry, "SplitSizes", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size(),
            sizes = HostInput(init, 1)](KernelContext& c) {
      const Tensor list = sizes.get(c);
      set_outputs(c, split(c.device(), c.input(0), axis, checked_sizes(list, count)));
    };
  });
  add_cuda(registry, "Unstack", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), count = init.output_types.size()](KernelContext& c) {
      set_outputs(c, unstack(c.device(), c.input(0), axis, count));
    };
  });
}

void register_boxes(KernelRegistry& registry) {
  add_cuda(registry, "Transpose", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [perm = init.attributes.integers("perm")](KernelContext& c) {
      c.set_output(0, transpose(c.device(), c.input(0), perm));
    };
  });
  add_cuda(registry, "BroadcastTo", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [dims = HostInput(init, 1)](KernelContext& c) {
      const Tensor list = dims.get(c);
      const Shape shape = broadcast(c.input(0).shape(), checked_shape(checked_dims(list)));
      c.set_output(0, c.input(0).shape() == shape ? c.input(0) : broadcast_to(c.device(), c.input(0), shape));
    };
  });
  add_cuda(registry, "BroadcastLike", kDataDTypes, [](KernelContext& c) {
    const Shape& shape = c.input(1).shape();
    c.set_output(0, c.input(0).shape() == shape ? c.input(0) : broadcast_to(c.device(), c.input(0), shape));
  });
}

template <class T>
Tensor range(KernelContext& c, const Tensor& start, const Tensor& limit, const Tensor& delta) {
  const T first = start.item<T>(), step = delta.item<T>();
  Tensor out = c.allocate(dtype_of<T>, Shape{range_count(first, limit.item<T>(), step)});
  RangeArguments arguments{.dtype = dtype_of<T>, .out = out.mutable_raw(), .count = out.num_elements()};
  if constexpr (std::is_integral_v<T>) {
    arguments.start = static_cast<std::uint64_t>(first);
    arguments.delta = static_cast<std::uint64_t>(step);
  } else {
    arguments.real_start = static_cast<double>(first);
    arguments.real_delta = static_cast<double>(step);
  }
  check_cuda(launch_range(arguments, cuda_device(c).stream()), "Range");
  return out;
}

template <class T>
void add_range(KernelRegistry& registry) {
  add_cuda(registry, "Range", {dtype_of<T>}, [](const KernelInit& init) -> Kernel {
    return [start = HostInput(init, 0), limit = HostInput(init, 1), delta = HostInput(init, 2)](KernelContext& c) {
      c.set_output(0, range<T>(c, start.get(c), limit.get(c), delta.get(c)));
    };
  });
}

void fill(KernelContext& c, const HostInput& dims, const HostInput& value) {
  if (c.input(1).num_elements() != 1)
    invalid_argument("Fill: the value must be a scalar, not {}", c.input(1).shape().to_string());
  const Tensor shape = dims.get(c);
  const Tensor one = value.constant() ? value.get(c) : c.input(1);
  c.set_output(0, broadcast_to(c.device(), one.reshaped(Shape{}), checked_shape(checked_dims(shape))));
}

void register_makers(KernelRegistry& registry) {
  add_cuda(registry, "Fill", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [dims = HostInput(init, 0), value = HostInput(init, 1)](KernelContext& c) { fill(c, dims, value); };
  });
  add_range<float>(registry);
  add_range<double>(registry);
  add_range<std::int8_t>(registry);
  add_range<std::uint8_t>(registry);
  add_range<std::int16_t>(registry);
  add_range<std::int32_t>(registry);
  add_range<std::int64_t>(registry);
  add_cuda(registry, "ZerosLike", kDataDTypes,
           [](KernelContext& c) { c.set_output(0, make_zeros(c.device(), c.input(0).dtype(), c.input(0).shape())); });
  add_cuda(registry, "OnesLike", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [one = host_scalar(init.input_types[0], 1)](KernelContext& c) {
      c.set_output(0, broadcast_to(c.device(), one, c.input(0).shape()));
    };
  });
  add_cuda(registry, "Shape", kDataDTypes, [](KernelContext& c) {
    const auto dims = c.input(0).shape().dims();
    c.set_output(0, c.device().upload(Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(dims.size())}, dims)));
  });
  add_cuda(registry, "Size", kDataDTypes, [](KernelContext& c) {
    c.set_output(0, c.device().upload(Tensor::scalar<std::int64_t>(c.input(0).num_elements())));
  });
}

}  // namespace

void register_cuda_array_kernels(KernelRegistry& registry) {
  register_views(registry);
  register_joins(registry);
  register_boxes(registry);
  register_makers(registry);
}

}  // namespace troupe
