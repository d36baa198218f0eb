// Builder API for debugging. These nodes have effects: order them by Graph::after, or use their outputs.
//
//   const Output checked = assert_true(greater(x, scalar_like(x, 0)), {x}, {.message = "x must be positive"});
//   const auto order = graph.after({checked});
//   Output y = log(x);
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/host_functions.hpp>

namespace troupe {

struct ReportOptions {
  std::string message{};
  std::int64_t summarize = 8;  // elements shown of each tensor
  Name name{};
};
// Fails the step with failed_precondition, the message and the data unless all elements of `cond` are true. Has no
// output: use it as a control or a target.
Output assert_true(Output cond, const Outputs& data = {}, ReportOptions options = {});
// x itself; a line with the message and the data (default: x) goes to stderr each time it is computed.
Output print(Output x, const Outputs& data = {}, ReportOptions options = {});
// x itself. Fails the step with invalid_argument if an element is NaN or infinite; so does its gradient.
// SessionOptions::check_numerics puts one behind each node.
Output check_numerics(Output x, const std::string& message = {}, Name name = {});
// fn(inputs), which runs on a device's thread of this process and returns tensors of these dtypes. No gradient.
Outputs host_call(HostFunction fn, const Outputs& inputs, const std::vector<DType>& dtypes, Name name = {});

}  // namespace troupe
