// A graph as TensorBoard shows it: its nodes with op, inputs, device, attributes and the shapes of their outputs. Large
// things (tensors, the bodies of functions) are only named.
#pragma once

#include "messages/proto/tensorboard.pb.h"
#include <troupe/graph/graph.hpp>

namespace troupe {

proto::tensorboard::GraphDef graph_def_of(const Graph& graph);

}  // namespace troupe
