// Builder API for control flow: branches and loops. Their bodies are functions of the graph; what they read of the
// graph around them is passed along.
//
//   Outputs out = while_loop([&](const Outputs& v) { return less(v[0], limit); },
//                            [&](const Outputs& v) { return Outputs{v[0] + 1.0, matmul(v[1], w)}; }, {i, x});
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// Builds a branch: adds nodes to the given graph and returns the results.
using BranchFn = std::function<Outputs(Graph&, const Outputs&)>;
// Runs one of two branches on `inputs`. Both must return the same number of results with the same dtypes.
Outputs if_else(Output cond, const Outputs& inputs, const BranchFn& then_branch, const BranchFn& else_branch,
                Name name = {});
// The same for functions that the graph already has.
Outputs if_else(Output cond, const Outputs& inputs, const std::string& then_function, const std::string& else_function,
                Name name = {});

// Runs branches[index] on `inputs`, the last branch for any index outside; `index` is an i32 or i64 scalar. All must
// return the same number of results with the same dtypes. Built of if_else: the depth is the logarithm of their number.
Outputs switch_case(Output index, const Outputs& inputs, const std::vector<BranchFn>& branches, Name name = {});

// Adds a copy of the nodes of a function that the graph has, for these arguments; returns its results.
Outputs call(Graph& graph, const std::string& function, const Outputs& inputs, Name name = {});

// A function with a derivative of one's own.
struct CustomGradient {
  std::function<Outputs(const Outputs& xs)> forward{};
  // The gradients of the xs, from those of the ys; an invalid Output where none flows. To be differentiable again it
  // must be made of differentiable ops of xs, ys and dys.
  std::function<Outputs(const Outputs& xs, const Outputs& ys, const Outputs& dys)> backward{};
};
// forward(xs), of which gradients() takes `backward` instead of the gradients of its ops.
Outputs custom_gradient(const CustomGradient& function, const Outputs& xs, Name name = {});

struct LoopOptions {
  // For gradients: false keeps what the body computes that they need, of every iteration; true keeps only the loop's
  // values at the beginning of each, and computes the rest again.
  bool recompute = false;
  Output limit{};  // the most iterations: an i64 scalar; negative: no limit
  Name name{};
};
using LoopCondition = std::function<Output(const Outputs& values)>;  // a bool scalar
using LoopBody = std::function<Outputs(const Outputs& values)>;
// Replaces `values` by body(values) while cond(values) is true; returns the last. Dtypes stay; a shape that changes
// becomes unknown as far as it does.
Outputs while_loop(const LoopCondition& cond, const LoopBody& body, const Outputs& values, LoopOptions options = {});

// body(i, values) for i from 0 to count - 1; `count` is an i64 scalar.
using CountedBody = std::function<Outputs(Output i, const Outputs& values)>;
Outputs for_loop(Output count, const CountedBody& body, const Outputs& values, LoopOptions options = {});

// The general loop: a step computes its own condition, and items that are collected in lists.
struct LoopStep {
  Output again{};  // whether to go on: a bool scalar
  Outputs values{};
  Outputs items{};
};
using LoopStepFn = std::function<LoopStep(Output i, const Outputs& values)>;
struct LoopOutputs {
  Outputs values{};
  Outputs lists{};  // of the items of all iterations, in their order
  std::vector<DType> item_types{};
  std::vector<Shape> item_shapes{};
};
// Runs step(i, values) for i = 0, 1, ... if `cond` (a bool scalar) holds, and then while each `again` does.
LoopOutputs loop(Output cond, const LoopStepFn& step, const Outputs& values, LoopOptions options = {});

struct Scanned {
  Outputs state{};
  Outputs ys{};
};
// A step gets the state and row t of each xs, and returns the next state and row t of each ys.
using ScanStep = std::function<Scanned(const Outputs& state, const Outputs& xs)>;
struct ScanOptions {
  bool reverse = false;  // from the last row to the first; the ys keep the order of the xs
  bool recompute = false;
  Name name{};
};
// Applies `step` to the rows (along dimension 0) of all xs, which must have equally many; ys are stacked likewise.
Scanned scan(const ScanStep& step, const Outputs& init, const Outputs& xs, ScanOptions options = {});

// ---- Lists of tensors, as values of dtype list

Output list_of(Graph& graph, const Outputs& items, Name name = {});
Output list_size(Output list, Name name = {});  // i64 scalar
// -1 is the last.
Output list_get(Output list, Output index, DType dtype, Shape item = Shape::unknown_rank(), Name name = {});
Output list_insert(Output list, Output item, Output index = {}, Name name = {});                  // default: at the end
Output list_erase(Output list, Output index = {}, Name name = {});                                // default: the last
Output list_stack(Output list, DType dtype, Shape item = Shape::unknown_rank(), Name name = {});  // [n, ...item]
Output list_concat(Output list, std::int64_t axis, DType dtype, Name name = {});
Output list_unstack(Output x, Name name = {});  // rows of dimension 0

}  // namespace troupe
