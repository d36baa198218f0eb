// Networks as protobuf messages: network_format.hpp for callers that embed them in their own messages.
#pragma once

#include "messages/proto/model.pb.h"
#include <troupe/graph/layers/registry.hpp>

namespace troupe {

// Throw like serialize() and parse_network().
proto::ModelConfig to_proto(const Network& network);
Network from_proto(const proto::ModelConfig& message, const LayerRegistry& registry = standard_layers());

}  // namespace troupe
