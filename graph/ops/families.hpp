// Op families. Each function adds the ops of one file; graph/ops/all.cpp calls them all.
#pragma once

#include <troupe/graph/op.hpp>

namespace troupe {

void register_state_ops(OpRegistry& ops);
void register_transfer_ops(OpRegistry& ops);
void register_math_ops(OpRegistry& ops);
void register_linear_ops(OpRegistry& ops);
void register_reduce_ops(OpRegistry& ops);
void register_array_ops(OpRegistry& ops);
void register_slice_ops(OpRegistry& ops);
void register_layout_ops(OpRegistry& ops);
void register_nn_ops(OpRegistry& ops);
void register_norm_ops(OpRegistry& ops);
void register_quantize_ops(OpRegistry& ops);
void register_softmax_ops(OpRegistry& ops);
void register_random_ops(OpRegistry& ops);
void register_update_ops(OpRegistry& ops);
void register_control_ops(OpRegistry& ops);
void register_recurrent_ops(OpRegistry& ops);
void register_attention_ops(OpRegistry& ops);

}  // namespace troupe
