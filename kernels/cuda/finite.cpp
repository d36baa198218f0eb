// AllFinite, ApplyLossScale, which does not need its result on the host, and CheckNumerics, which does not wait for it:
// a step fails later (devices/cuda/cuda_faults.hpp).
#include <string>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/finite_launch.hpp>
#include <troupe/kernels/cuda/variables.hpp>

namespace troupe {
namespace {

Kernel make_all_finite(const KernelInit& init) {
  const DType dtype = init.input_types.empty() ? DType::f32 : init.input_types[0];
  return [dtype](KernelContext& context) {
    const cudaStream_t stream = cuda_device(context).stream();
    Tensor out = context.allocate(DType::boolean, Shape{});
    auto* finite = reinterpret_cast<bool*>(out.mutable_raw());
    check_cuda(cudaMemsetAsync(finite, 1, 1, stream), "AllFinite");
    SweepTable<1> table{};
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& x = context.input(i);
      const std::array<void*, 1> pointer{const_cast<std::byte*>(x.raw())};
      if (table.add(pointer, x.num_elements())) continue;
      check_cuda(launch_find_not_finite(dtype, table, finite, stream), "AllFinite");
      table = {};
      table.add(pointer, x.num_elements());
    }
    check_cuda(launch_find_not_finite(dtype, table, finite, stream), "AllFinite");
    context.set_output(0, std::move(out));
  };
}

Kernel make_loss_scale(const KernelInit& init) {
  const LossScaleRule rule{init.attributes.boolean("dynamic"),
                           static_cast<double>(init.attributes.integer("growth_interval")),
                           init.attributes.real("largest")};
  return [rule](KernelContext& context) {
    check_tensor("ApplyLossScale: var", context.variable(0).value(), DType::f64, Shape{3});
    const Tensor& verdict = context.input(1);
    if (!is_floating(verdict.dtype())) fail(Code::unimplemented, "dtype {} is not supported", name(verdict.dtype()));
    auto* state = reinterpret_cast<double*>(writable(context, 0).mutable_raw());
    check_cuda(launch_loss_scale_step(verdict.dtype(), verdict.raw(), verdict.num_elements(), state, rule,
                                      cuda_device(context).fault(), cuda_device(context).stream()),
               "ApplyLossScale");
  };
}

Error not_finite(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("element {} is {}", fault.element,
                                              fault.value == 0  ? "NaN"
                                              : fault.value > 0 ? "infinite"
                                                                : "-infinite")};
}

Kernel make_check_numerics(const KernelInit& init) {
  const std::string message = init.attributes.string("message");
  return [message = message.empty() ? std::string("a tensor") : message](KernelContext& context) {
    const Tensor& x = context.input(0);
    const std::string detail =
        fmt::format("{} {}", message, context.num_inputs() > 1 ? "makes a number that is not finite" : "is not finite");
    check_cuda(launch_check_finite(x.dtype(), x.raw(), x.num_elements(),
                                   cuda_device(context).fault_site(not_finite, detail), cuda_device(context).stream()),
               "CheckNumerics");
    context.set_output(0, x);
  };
}

}  // namespace

void register_cuda_finite_kernels(KernelRegistry& registry) {
  add_cuda(registry, "AllFinite", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_all_finite);
  add_cuda(registry, "CheckNumerics", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_check_numerics);
  add_cuda(registry, "ApplyLossScale", {DType::f64}, make_loss_scale);
}

}  // namespace troupe
