// Mixed precision: of a graph in f32, the products, and what lies between them, in bf16 or f16.
//
//   x f32 ─ Cast ─▶ MatMul bf16 ─▶ BiasAdd bf16 ─▶ Relu bf16 ─▶ MatMul bf16 ─ Cast ─▶ f32 BiasAdd, softmax,
//   ...
//
// Ops are of three classes (OpDef::precision):
//   narrow     Products: computed in 16 bits wherever the graph has them in f32. Their sums are in f32 inside.
//   follower   Elementwise ops, ops that move elements, and normalisations (whose sums, statistics, scales and offsets
//              stay in f32): in 16 bits if all tensors they work on come from 16 bits and one of their consumers goes
//              on in 16 bits, so that no cast is needed between. What flows back to one (dy) may come from f32: the
//              gradient of what is narrow is narrow.
//   sensitive  All others keep f32: sums and means, exponentials, losses, updates. Variables, and what is fed
//              and fetched, keep their dtype.
// A tensor is cast once, beside the node that makes it, however many use it. Functions (branches of If) stay
// as they are. What is done follows from the graph alone.
//
// With f16 gradients below 6e-8 vanish: train with graph/optimizers/loss_scaling.hpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <troupe/graph/graph.hpp>

namespace troupe {

struct MixedPrecisionOptions {
  DType precision = DType::bf16;  // or f16
  // Is there a kernel? Ops without one stay as they are. None given: there is one for all.
  std::function<bool(const std::string& op, DType dtype)> supports{};
};

struct MixedPrecisionReport {
  std::map<std::string, int> narrowed{};  // how many nodes of each op
  int casts = 0;                          // nodes added
  std::string to_string() const;          // "5 MatMul, 2 Relu; 7 casts"
};

// Throws invalid_argument for another precision.
std::unique_ptr<Graph> mixed_precision(const Graph& graph, const MixedPrecisionOptions& options,
                                       MixedPrecisionReport* report = nullptr);

}  // namespace troupe
