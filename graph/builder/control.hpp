// Builder API for control flow.
#pragma once

#include <functional>
#include <string>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// Builds a branch: adds nodes to the given graph, reading only the given arguments, and returns the results.
using BranchFn = std::function<Outputs(Graph&, const Outputs&)>;
// Runs one of two branches on `inputs`. Both must return the same number of results with the same dtypes.
Outputs if_else(Output cond, const Outputs& inputs, const BranchFn& then_branch, const BranchFn& else_branch,
                Name name = {});
// The same for functions that the graph already has.
Outputs if_else(Output cond, const Outputs& inputs, const std::string& then_function, const std::string& else_function,
                Name name = {});

}  // namespace troupe
