// Diagonals, blocks, repeats and their gradients: twins of kernels/cpu/layout_kernels.cpp. All but triangles and sums
// over copies compute in kernels/common/layout.cpp.
#include <algorithm>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/fold.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/kernels/common/layout.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/host_input.hpp>
#include <troupe/kernels/cuda/layout_launch.hpp>

namespace troupe {

Tensor fold_copies(Device& device, const Tensor& dy, int d, const Copies& copies) {
  Tensor out = device.allocator().tensor(dy.dtype(), folded_shape(dy.shape(), d, copies));
  if (out.num_elements() == 0) return out;
  const Shape& shape = out.shape();
  std::vector<std::int64_t> both(copies.starts);
  both.insert(both.end(), copies.places.begin(), copies.places.end());
  const Tensor tables = device.upload(Tensor::of<std::int64_t>(Shape{std::ssize(both)}, both));
  const auto* starts = reinterpret_cast<const std::int64_t*>(tables.raw());
  check_cuda(launch_fold({.dtype = dy.dtype(),
                          .dy = dy.raw(),
                          .out = out.mutable_raw(),
                          .starts = starts,
                          .places = starts + copies.starts.size(),
                          .count = out.num_elements(),
                          .size = shape.dim(d),
                          .dy_size = dy.shape().dim(d),
                          .inner = product(shape, d + 1, shape.rank())},
                         static_cast<CudaDevice&>(device).stream()),
             "the sum of copies");
  return out;
}

namespace {

Tensor trilu(KernelContext& context, const Tensor& k, bool upper) {
  const Tensor& x = context.input(0);
  if (x.shape().rank() < 2) invalid_argument("Trilu needs matrices, but x is {}", x.shape().to_string());
  const std::int64_t diagonal = checked_scalar("Trilu: k", k);
  Tensor out = context.allocate(x.dtype(), x.shape());
  if (out.num_elements() == 0) return out;
  const std::int64_t rows = x.shape()[-2], columns = x.shape()[-1];
  check_cuda(launch_trilu({.x = x.raw(),
                           .out = out.mutable_raw(),
                           .element_bytes = size_of(x.dtype()),
                           .count = out.num_elements(),
                           .rows = rows,
                           .columns = columns,
                           .k = std::clamp(diagonal, -rows, columns),
                           .upper = upper},
                          cuda_device(context).stream()),
             "Trilu");
  return out;
}

void register_diagonals(KernelRegistry& registry) {
  add_cuda(registry, "Trilu", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [k = HostInput(init, 1), upper = init.attributes.boolean("upper")](KernelContext& c) {
      c.set_output(0, trilu(c, k.get(c), upper));
    };
  });
  add_cuda(registry, "DiagPart", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [k = HostInput(init, 1)](KernelContext& c) {
      c.set_output(0, diag_part(c.device(), c.input(0), checked_scalar("DiagPart: k", k.get(c))));
    };
  });
  add_cuda(registry, "SetDiag", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [k = HostInput(init, 2)](KernelContext& c) {
      c.set_output(0, set_diag(c.device(), c.input(0), c.input(1), checked_scalar("SetDiag: k", k.get(c))));
    };
  });
}

void register_repeats(KernelRegistry& registry) {
  add_cuda(registry, "Repeat", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [times = HostInput(init, 1), axis = init.attributes.integer("axis")](KernelContext& c) {
      const Tensor list = times.get(c);
      c.set_output(0, repeat(c.device(), c.input(0), checked_dims(list), axis));
    };
  });
  add_cuda(registry, "RepeatGrad", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [times = HostInput(init, 2), axis = init.attributes.integer("axis")](KernelContext& c) {
      const Tensor list = times.get(c);
      c.set_output(0, repeat_grad(c.device(), c.input(0), c.input(1).shape(), checked_dims(list), axis));
    };
  });
  add_cuda(registry, "PadGrad", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [pads = HostInput(init, 2), mode = parse_pad_mode(init.attributes.string("mode"))](KernelContext& c) {
      const Tensor list = pads.get(c);
      c.set_output(0, pad_grad(c.device(), c.input(0), c.input(1).shape(), checked_dims(list), mode));
    };
  });
}

void register_batches(KernelRegistry& registry) {
  add_cuda(registry, "ReverseSequence", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [lengths = HostInput(init, 1), seq = init.attributes.integer("seq_axis"),
            batch = init.attributes.integer("batch_axis")](KernelContext& c) {
      const Tensor list = lengths.get(c);
      c.set_output(0, reverse_sequence(c.device(), c.input(0), checked_dims(list), seq, batch));
    };
  });
  add_cuda(registry, "SpaceToBatch", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [block = HostInput(init, 1), pads = HostInput(init, 2)](KernelContext& c) {
      const Tensor zero = make_zeros(c.device(), c.input(0).dtype(), Shape{});
      const Tensor sizes = block.get(c), list = pads.get(c);
      c.set_output(0, space_to_batch(c.device(), c.input(0), checked_dims(sizes), checked_dims(list), zero));
    };
  });
  add_cuda(registry, "BatchToSpace", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [block = HostInput(init, 1), crops = HostInput(init, 2)](KernelContext& c) {
      const Tensor sizes = block.get(c), list = crops.get(c);
      c.set_output(0, batch_to_space(c.device(), c.input(0), checked_dims(sizes), checked_dims(list)));
    };
  });
}

}  // namespace

void register_cuda_layout_kernels(KernelRegistry& registry) {
  register_diagonals(registry);
  register_repeats(registry);
  register_batches(registry);
}

}  // namespace troupe
