// Graphs as protobuf messages: serialize.hpp for callers that embed them in their own messages.
#pragma once

#include <memory>

#include "messages/proto/graph.pb.h"
#include <troupe/graph/graph.hpp>

namespace troupe {

// Throw like serialize() and parse_graph().
proto::Graph to_proto(const Graph& graph);
std::unique_ptr<Graph> from_proto(const proto::Graph& message, const OpRegistry& ops = standard_ops());

// A single attribute value or tensor, by the same rules. The tensor must be in host memory.
proto::Attribute to_proto(const AttrValue& value);
AttrValue from_proto(const proto::Attribute& message);
proto::TensorValue to_proto(const Tensor& tensor);
Tensor from_proto(const proto::TensorValue& message);

}  // namespace troupe
