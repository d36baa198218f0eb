// A product, its bias and its activation become one node, which adds and activates while the product is in the
// cache.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// MatMul or Conv2D, then BiasAdd, then Relu, Sigmoid, Tanh or none of them, become FusedMatMul or FusedConv2D, if
// nothing else uses what is between them.
std::unique_ptr<Graph> fuse_bias(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
