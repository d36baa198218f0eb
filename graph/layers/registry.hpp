// Makes layers from their configurations: what a reader of models knows.
//
//   LayerRegistry mine = standard_layers();
//   mine.add("scale", [](const LayerConfig&) { return std::make_shared<Scale>(); });
//   Network network = parse_network(bytes, mine);
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <troupe/graph/layers/network.hpp>

namespace troupe {

class LayerRegistry {
 public:
  using Maker = std::function<LayerPtr(const LayerConfig&)>;

  void add(std::string kind, Maker maker);  // throws already_exists
  // Throws not_found for an unknown kind, and invalid_argument, naming the kind, for options that do not fit it.
  LayerPtr make(const LayerConfig& config) const;
  std::vector<std::string> kinds() const;  // sorted

 private:
  std::map<std::string, Maker, std::less<>> makers_;
};

// All kinds of layers.hpp, and networks.
const LayerRegistry& standard_layers();

}  // namespace troupe
