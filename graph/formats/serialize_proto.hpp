// Graphs as protobuf messages: serialize.hpp for callers that embed them in their own messages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "messages/proto/graph.pb.h"
#include <troupe/graph/graph.hpp>

namespace troupe {

// Throw like serialize() and parse_graph(). Aligned tensors of at least kApartBytes are added to `apart`, unless it is
// null, and not copied to the message, which is then read with them: between actors of one process, which share their
// memory.
inline constexpr std::size_t kApartBytes = 4096;
proto::Graph to_proto(const Graph& graph, std::vector<Tensor>* apart = nullptr);
std::unique_ptr<Graph> from_proto(const proto::Graph& message, const OpRegistry& ops = standard_ops(),
                                  std::span<const Tensor> apart = {});

// A single attribute value or tensor, by the same rules. The tensor must be in host memory.
proto::Attribute to_proto(const AttrValue& value);
AttrValue from_proto(const proto::Attribute& message);
proto::TensorValue to_proto(const Tensor& tensor);
Tensor from_proto(const proto::TensorValue& message);

}  // namespace troupe
