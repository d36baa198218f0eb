// Networks as data: messages/proto/model.proto. Holds layers, options and names, but no weights. Writing is
// deterministic. Reading trusts nothing: every option, number and name is checked.
#pragma once

#include <string>
#include <string_view>

#include <troupe/graph/layers/registry.hpp>

namespace troupe {

// Throws failed_precondition, naming the layer, for one that cannot be written: a lambda, a kind of the program's own
// without a config(), a weight whose initializer is a function of the program's own.
std::string serialize(const Network& network);
std::string to_text(const Network& network);  // of protobuf

// Throws data_loss (not a network, or truncated), not_found (an unknown kind) or invalid_argument (everything else).
Network parse_network(std::string_view bytes, const LayerRegistry& registry = standard_layers());
Network parse_network_text(std::string_view text, const LayerRegistry& registry = standard_layers());

}  // namespace troupe
