// The optimizations of a callable's graph, in execution order. Each takes a graph and returns a new one that computes
// the same fetches; each can be disabled by name.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/passes/fold.hpp>
#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

struct Pass {
  std::string name{};
  // Adds notable changes to the notes.
  std::function<std::unique_ptr<Graph>(const Graph&, PassNotes& notes)> run{};
  bool inference = false;  // only where OptimizeOptions::inference is set
  // Whether a graph may have what the pass looks for; if not, it is not even copied. None: the pass always runs.
  std::function<bool(const Graph&)> has_work{};
};

// The effect of a pass, for logs and tests.
struct PassReport {
  std::string_view pass{};
  int nodes_before = 0;
  int nodes_after = 0;
  std::chrono::nanoseconds time{0};
  PassNotes notes{};  // "fused a + b -> Op 'name'"
};

struct OptimizeOptions {
  Evaluator evaluator{};                 // none: constants are not folded
  std::set<std::string> switched_off{};  // names of passes; unknown ones throw not_found
  std::size_t folded_bytes = kFoldedBytes;
  bool inference = false;  // also passes that change bits, each by a stated tolerance
  std::function<bool(std::string_view op, DType dtype)> has_kernel{};  // see FuseOptions
  std::function<void(const PassReport&)> report{};
  // With `inference`, a graph for any shapes may be optimized up to "shape_classes", and from there on for each set of
  // shapes, with the same bits. Called with the graph as it is then, unless that pass is switched off.
  std::function<void(const Graph&)> before_shapes{};
  // Shapes of feeds, by their index. If there are some, passes begin with "shape_classes", on what before_shapes got.
  std::map<std::int64_t, Shape> feed_shapes{};
};

// All enabled passes. The list itself is in optimize.cpp.
std::vector<Pass> optimizations(const OptimizeOptions& options);

// Runs them all. Errors name the pass.
std::unique_ptr<Graph> optimize(std::unique_ptr<Graph> graph, const OptimizeOptions& options);

}  // namespace troupe
