#include "troupe/kernels/kernels.hpp"

#include <troupe/kernels/common/reuse.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/resource_kernels.hpp>
#include <troupe/kernels/cpu/sparse_kernels.hpp>

namespace troupe {

void register_all_kernels(KernelRegistry& registry) {
  register_array_kernels(registry);
  register_bitwise_kernels(registry);
  register_attention_kernels(registry);
  register_bias_kernels(registry);
  register_cast_kernels(registry);
  register_comparison_kernels(registry);
  register_conv_kernels(registry);
  register_debug_kernels(registry);
  register_conv_integer_kernels(registry);
  register_finite_kernels(registry);
  register_fused_kernels(registry);
  register_gather_kernels(registry);
  register_grid_sample_kernels(registry);
  register_crop_kernels(registry);
  register_region_kernels(registry);
  register_layout_kernels(registry);
  register_linear_kernels(registry);
  register_matrix_kernels(registry);
  register_quantized_linear_kernels(registry);
  register_quantized_conv_kernels(registry);
  register_quantized_matmul_kernels(registry);
  register_loss_scale_kernels(registry);
  register_math_binary_kernels(registry);
  register_math_division_kernels(registry);
  register_math_grad_kernels(registry);
  register_math_special_kernels(registry);
  register_math_unary_kernels(registry);
  register_non_max_suppression_kernels(registry);
  register_norm_kernels(registry);
  register_pool_kernels(registry);
  register_quantize_kernels(registry);
  register_pool_index_kernels(registry);
  register_random_kernels(registry);
  register_recurrent_kernels(registry);
  register_random_draw_kernels(registry);
  register_reduce_kernels(registry);
  register_resize_kernels(registry);
  register_list_kernels(registry);
  register_select_kernels(registry);
  register_softmax_kernels(registry);
  register_ctc_kernels(registry);
  register_state_kernels(registry);
  register_resource_kernels(registry);
  register_string_number_kernels(registry);
  register_signal_kernels(registry);
  register_sparse_kernels(registry);
  register_sparse_product_kernels(registry);
  register_table_kernels(registry);
  register_text_kernels(registry);
  register_cumulative_kernels(registry);
  register_partition_kernels(registry);
  register_constraint_kernels(registry);
  register_row_kernels(registry);
  register_scatter_kernels(registry);
  register_search_kernels(registry);
  register_segment_kernels(registry);
  register_sort_kernels(registry);
  register_top_k_kernels(registry);
  register_tree_kernels(registry);
  register_unique_kernels(registry);
  register_update_kernels(registry);
  register_reuse(registry, "CPU");
}

}  // namespace troupe
