// One call of an op in eager mode, as work for its device.
#pragma once

#include <functional>
#include <vector>

#include <troupe/actors/eager/prepared_ops.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

// Runs the op, on the calling thread if the device has nothing to do, and otherwise after what the device has to do;
// returns its outputs. Throws the error of the kernel, naming op and inputs; cancelled if the device has ended.
// `around_waits`: EagerOptions.
using AroundWaits = std::function<void(const std::function<void()>& wait)>;
std::vector<Output> run_op(Graph& graph, const PreparedOp& op, const NodeSpec& call, const RandomKey& random,
                           const AroundWaits& around_waits);

}  // namespace troupe
