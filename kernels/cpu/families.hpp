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
void register_debug_kernels(KernelRegistry& registry);
void register_conv_integer_kernels(KernelRegistry& registry);
void register_finite_kernels(KernelRegistry& registry);
void register_fused_kernels(KernelRegistry& registry);
void register_gather_kernels(KernelRegistry& registry);
void register_grid_sample_kernels(KernelRegistry& registry);
void register_crop_kernels(KernelRegistry& registry);
void register_region_kernels(KernelRegistry& registry);
void register_layout_kernels(KernelRegistry& registry);
void register_linear_kernels(KernelRegistry& registry);
void register_matrix_kernels(KernelRegistry& registry);
void register_quantized_linear_kernels(KernelRegistry& registry);
void register_quantized_conv_kernels(KernelRegistry& registry);
void register_quantized_matmul_kernels(KernelRegistry& registry);
void register_loss_scale_kernels(KernelRegistry& registry);
void register_math_binary_kernels(KernelRegistry& registry);
void register_math_division_kernels(KernelRegistry& registry);
void register_math_grad_kernels(KernelRegistry& registry);
void register_math_special_kernels(KernelRegistry& registry);
void register_math_unary_kernels(KernelRegistry& registry);
void register_non_max_suppression_kernels(KernelRegistry& registry);
void register_norm_kernels(KernelRegistry& registry);
void register_pool_kernels(KernelRegistry& registry);
void register_quantize_kernels(KernelRegistry& registry);
void register_pool_index_kernels(KernelRegistry& registry);
void register_random_kernels(KernelRegistry& registry);
void register_recurrent_kernels(KernelRegistry& registry);
void register_random_draw_kernels(KernelRegistry& registry);
void register_reduce_kernels(KernelRegistry& registry);
void register_resize_kernels(KernelRegistry& registry);
void register_list_kernels(KernelRegistry& registry);
void register_select_kernels(KernelRegistry& registry);
void register_softmax_kernels(KernelRegistry& registry);
void register_ctc_kernels(KernelRegistry& registry);
void register_state_kernels(KernelRegistry& registry);
void register_string_number_kernels(KernelRegistry& registry);
void register_signal_kernels(KernelRegistry& registry);
void register_table_kernels(KernelRegistry& registry);
void register_text_kernels(KernelRegistry& registry);
void register_cumulative_kernels(KernelRegistry& registry);
void register_partition_kernels(KernelRegistry& registry);
void register_constraint_kernels(KernelRegistry& registry);
void register_row_kernels(KernelRegistry& registry);
void register_scatter_kernels(KernelRegistry& registry);
void register_search_kernels(KernelRegistry& registry);
void register_segment_kernels(KernelRegistry& registry);
void register_sort_kernels(KernelRegistry& registry);
void register_top_k_kernels(KernelRegistry& registry);
void register_tree_kernels(KernelRegistry& registry);
void register_unique_kernels(KernelRegistry& registry);
void register_update_kernels(KernelRegistry& registry);

}  // namespace troupe
