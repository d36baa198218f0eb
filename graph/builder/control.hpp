// The builder API of control flow.
#pragma once

#include <functional>
#include <string>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// Builds a branch: adds nodes to the graph given, using the arguments alone, and returns the results.
using BranchFn = std::function<Outputs(Graph&, const Outputs&)>;
// Runs one branch on `inputs`. Both must return as many results, of the same dtypes.
Outputs if_else(Output cond, const Outputs& inputs, const BranchFn& then_branch, const BranchFn& else_branch,
                Name name = {});
// The same, of functions that the graph has.
Outputs if_else(Output cond, const Outputs& inputs, const std::string& then_function, const std::string& else_function,
                Name name = {});

}  // namespace troupe
