// Op families. Each function adds the ops of one file; graph/ops/all.cpp calls them all.
#pragma once

#include <troupe/graph/op.hpp>

namespace troupe {

void register_resource_ops(OpRegistry& ops);
void register_state_ops(OpRegistry& ops);
void register_transfer_ops(OpRegistry& ops);
void register_math_ops(OpRegistry& ops);
void register_decomposition_ops(OpRegistry& ops);
void register_linear_ops(OpRegistry& ops);
void register_matrix_ops(OpRegistry& ops);
void register_reduce_ops(OpRegistry& ops);
void register_array_ops(OpRegistry& ops);
void register_slice_ops(OpRegistry& ops);
void register_layout_ops(OpRegistry& ops);
void register_index_ops(OpRegistry& ops);
void register_order_ops(OpRegistry& ops);
void register_cumulative_ops(OpRegistry& ops);
void register_segment_ops(OpRegistry& ops);
void register_sparse_ops(OpRegistry& ops);
void register_image_ops(OpRegistry& ops);
void register_nn_ops(OpRegistry& ops);
void register_conv_ops(OpRegistry& ops);
void register_pool_ops(OpRegistry& ops);
void register_norm_ops(OpRegistry& ops);
void register_group_norm_ops(OpRegistry& ops);
void register_quantize_ops(OpRegistry& ops);
void register_softmax_ops(OpRegistry& ops);
void register_random_ops(OpRegistry& ops);
void register_update_ops(OpRegistry& ops);
void register_debug_ops(OpRegistry& ops);
void register_signal_ops(OpRegistry& ops);
void register_text_ops(OpRegistry& ops);
void register_control_ops(OpRegistry& ops);
void register_recurrent_ops(OpRegistry& ops);
void register_attention_ops(OpRegistry& ops);
void register_row_ops(OpRegistry& ops);
void register_tree_ops(OpRegistry& ops);

}  // namespace troupe
