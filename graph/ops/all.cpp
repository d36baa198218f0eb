// The list of families.
#include <troupe/graph/ops/families.hpp>

namespace troupe {

const OpRegistry& standard_ops() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    register_state_ops(r);
    register_resource_ops(r);
    register_transfer_ops(r);
    register_math_ops(r);
    register_linear_ops(r);
    register_matrix_ops(r);
    register_decomposition_ops(r);
    register_reduce_ops(r);
    register_array_ops(r);
    register_slice_ops(r);
    register_layout_ops(r);
    register_index_ops(r);
    register_order_ops(r);
    register_cumulative_ops(r);
    register_segment_ops(r);
    register_sparse_ops(r);
    register_image_ops(r);
    register_nn_ops(r);
    register_conv_ops(r);
    register_pool_ops(r);
    register_norm_ops(r);
    register_group_norm_ops(r);
    register_quantize_ops(r);
    register_softmax_ops(r);
    register_random_ops(r);
    register_update_ops(r);
    register_signal_ops(r);
    register_text_ops(r);
    register_control_ops(r);
    register_debug_ops(r);
    register_recurrent_ops(r);
    register_attention_ops(r);
    register_row_ops(r);
    register_tree_ops(r);
    return r;
  }();
  return registry;
}

}  // namespace troupe
