// Twin of kernels/cpu/cast.cpp. As there, f64 to f16 or bf16 goes through f32 and rounds twice.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/cast_launch.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>

namespace troupe {
namespace {

void cast(KernelContext& context, DType to) {
  const Tensor& x = context.input(0);
  if (x.dtype() == to) return context.set_output(0, x);
  if (to == DType::string || !is_valid(to))
    fail(Code::unimplemented, "no conversion from {} to {}", name(x.dtype()), name(to));
  Tensor out = context.allocate(to, x.shape());
  check_cuda(launch_cast(x.dtype(), x.raw(), to, out.mutable_raw(), x.num_elements(), cuda_device(context).stream()),
             "Cast");
  context.set_output(0, std::move(out));
}

}  // namespace

void register_cuda_cast_kernels(KernelRegistry& registry) {
  add_cuda(registry, "Cast", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [to = init.attributes.dtype("DstT")](KernelContext& context) { cast(context, to); };
  });
}

}  // namespace troupe
