// A graph in TensorBoard's format: its nodes with op, inputs, device, attributes and output shapes. Large attributes
// (tensors, function bodies) are only named.
#pragma once

#include "messages/proto/tensorboard.pb.h"
#include <troupe/graph/graph.hpp>

namespace troupe {

proto::tensorboard::GraphDef graph_def_of(const Graph& graph);

}  // namespace troupe
