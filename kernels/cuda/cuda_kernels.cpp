#include "troupe/kernels/cuda/cuda_kernels.hpp"

#include <troupe/kernels/common/reuse.hpp>

namespace troupe {
void add_cuda(KernelRegistry& registry, const std::string& op, std::initializer_list<DType> dtypes, KernelFactory make,
              Replay replay) {
  registry.add({op, "GPU", dtypes, std::move(make), replay == Replay::allowed});
}

void add_cuda(KernelRegistry& registry, const std::string& op, std::initializer_list<DType> dtypes,
              void (*run)(KernelContext&), Replay replay) {
  add_cuda(
      registry, op, dtypes, [run](const KernelInit&) -> Kernel { return run; }, replay);
}

void register_cuda_kernels(KernelRegistry& registry) {
  register_cuda_array_kernels(registry);
  register_cuda_attention_kernels(registry);
  register_cuda_bias_kernels(registry);
  register_cuda_cast_kernels(registry);
  register_cuda_comparison_kernels(registry);
  register_cuda_conv_kernels(registry);
  register_cuda_cumulative_kernels(registry);
  register_cuda_finite_kernels(registry);
  register_cuda_fused_kernels(registry);
  register_cuda_gather_kernels(registry);
  register_cuda_indexed_kernels(registry);
  register_cuda_layout_kernels(registry);
  register_cuda_linear_kernels(registry);
  register_cuda_math_binary_kernels(registry);
  register_cuda_math_grad_kernels(registry);
  register_cuda_math_special_kernels(registry);
  register_cuda_math_unary_kernels(registry);
  register_cuda_norm_kernels(registry);
  register_cuda_pool_kernels(registry);
  register_cuda_random_kernels(registry);
  register_cuda_reduce_kernels(registry);
  register_cuda_select_kernels(registry);
  register_cuda_slice_kernels(registry);
  register_cuda_softmax_kernels(registry);
  register_cuda_state_kernels(registry);
  register_cuda_update_kernels(registry);
  register_reuse(registry, "GPU");
}

}  // namespace troupe
