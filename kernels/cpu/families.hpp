// Families of CPU kernels: one function per file, called by register_all_kernels.
#pragma once

#include <troupe/devices/kernel.hpp>

namespace troupe {

void register_array_kernels(KernelRegistry& registry);
void register_bitwise_kernels(KernelRegistry& registry);
void register_attention_kernels(KernelRegistry& registry);
void register_bias_kernels(KernelRegistry& registry);
void register_cast_kernels(KernelRegistry& registry);
void register_comparison_kernels(KernelRegistry& registry);
void register_conv_kernels(KernelRegistry& registry);
void register_finite_kernels(KernelRegistry& registry);
void register_fused_kernels(KernelRegistry& registry);
void register_gather_kernels(KernelRegistry& registry);
void register_layout_kernels(KernelRegistry& registry);
void register_linear_kernels(KernelRegistry& registry);
void register_loss_scale_kernels(KernelRegistry& registry);
void register_math_binary_kernels(KernelRegistry& registry);
void register_math_grad_kernels(KernelRegistry& registry);
void register_math_special_kernels(KernelRegistry& registry);
void register_math_unary_kernels(KernelRegistry& registry);
void register_norm_kernels(KernelRegistry& registry);
void register_pool_kernels(KernelRegistry& registry);
void register_quantize_kernels(KernelRegistry& registry);
void register_random_kernels(KernelRegistry& registry);
void register_recurrent_kernels(KernelRegistry& registry);
void register_reduce_kernels(KernelRegistry& registry);
void register_list_kernels(KernelRegistry& registry);
void register_select_kernels(KernelRegistry& registry);
void register_softmax_kernels(KernelRegistry& registry);
void register_state_kernels(KernelRegistry& registry);
void register_string_number_kernels(KernelRegistry& registry);
void register_update_kernels(KernelRegistry& registry);

}  // namespace troupe
