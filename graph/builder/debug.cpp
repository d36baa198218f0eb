#include "troupe/graph/builder/debug.hpp"

namespace troupe {

Output assert_true(Output cond, const Outputs& data, ReportOptions options) {
  Outputs inputs{cond};
  inputs.insert(inputs.end(), data.begin(), data.end());
  return add_target(*cond.graph,
                    {.op = "Assert",
                     .name = std::move(options.name),
                     .inputs = std::move(inputs),
                     .attributes = {{"message", std::move(options.message)}, {"summarize", options.summarize}}});
}

Output print(Output x, const Outputs& data, ReportOptions options) {
  Outputs inputs{x};
  inputs.insert(inputs.end(), data.begin(), data.end());
  return add_op("Print", inputs, {{"message", std::move(options.message)}, {"summarize", options.summarize}},
                std::move(options.name));
}

Output check_numerics(Output x, const std::string& message, Name name) {
  return add_op("CheckNumerics", {std::move(x)}, {{"message", message}}, std::move(name));
}

Outputs host_call(HostFunction fn, const Outputs& inputs, const std::vector<DType>& dtypes, Name name) {
  if (inputs.empty()) invalid_argument("host_call: pass at least one input, which tells the graph");
  const HostFunctionId id = add_host_function(std::move(fn));
  return add_outputs("HostCall", inputs, {{"function", id.function}, {"process", id.process}, {"Tout", dtypes}},
                     std::move(name));
}

}  // namespace troupe
