// Builder API for reductions: over all axes if none are given.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct ReduceOptions {
  bool keep_dims = false;
  Name name{};
};
Output sum(Output x, Integers axes = {}, ReduceOptions options = {});
Output mean(Output x, Integers axes = {}, ReduceOptions options = {});
Output max(Output x, Integers axes = {}, ReduceOptions options = {});
Output min(Output x, Integers axes = {}, ReduceOptions options = {});
Output arg_max(Output x, std::int64_t axis, Name name = {});  // the first maximum; i64
Output l2_loss(Output x, Name name = {});                     // sum(x^2) / 2

}  // namespace troupe
