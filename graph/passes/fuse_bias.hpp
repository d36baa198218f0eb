// Fuses a product, its bias and its activation into one node, which adds and activates while the product is in cache.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Turns MatMul or Conv, followed by BiasAdd and optionally Relu, Sigmoid or Tanh, into FusedMatMul or FusedConv, if
// nothing else uses the results in between.
std::unique_ptr<Graph> fuse_bias(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
