// Mixed precision: converts the products of an f32 graph, and the ops between them, to bf16 or f16.
//
//   x f32 ─ Cast ─▶ MatMul bf16 ─▶ BiasAdd bf16 ─▶ Relu bf16 ─▶ MatMul bf16 ─ Cast ─▶ f32 BiasAdd, softmax,
//   ...
//
// Ops fall into three classes (OpDef::precision):
//   narrow     Products: computed in 16 bits wherever the graph has them in f32. Their sums are in f32 internally.
//   follower   Elementwise ops, ops that move elements, and normalisations (whose sums, statistics, scales and offsets
//              stay in f32): in 16 bits if all tensors they work on come from 16 bits and at least one consumer
//              continues in 16 bits, so that no cast is needed in between. The incoming gradient (dy) may come from
//              f32: the gradient of a narrow tensor is narrow.
//   sensitive  All others keep f32: sums and means, exponentials, losses, updates. Variables, feeds and fetches keep
//              their dtype.
// A tensor is cast once, next to the node that produces it, regardless of the number of consumers. Functions (branches
// of If) are left unchanged. The result depends on the graph alone.
//
// With f16, gradients below 6e-8 vanish: train with graph/optimizers/loss_scaling.hpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <troupe/graph/graph.hpp>

namespace troupe {

struct MixedPrecisionOptions {
  DType precision = DType::bf16;  // or f16
  // Whether a kernel exists. Ops without one stay as they are. Not set: all exist.
  std::function<bool(const std::string& op, DType dtype)> supports{};
};

struct MixedPrecisionReport {
  std::map<std::string, int> narrowed{};  // number of nodes, by op
  int casts = 0;                          // nodes added
  std::string to_string() const;          // "5 MatMul, 2 Relu; 7 casts"
};

// Throws invalid_argument for any other precision.
std::unique_ptr<Graph> mixed_precision(const Graph& graph, const MixedPrecisionOptions& options,
                                       MixedPrecisionReport* report = nullptr);

}  // namespace troupe
