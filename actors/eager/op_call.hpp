// One call of an op in eager mode, as work for its device.
#pragma once

#include <memory>
#include <vector>

#include <troupe/actors/eager/op_results.hpp>
#include <troupe/actors/eager/prepared_ops.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

// Runs the op: on the calling thread if the device is a CPU with nothing to do; otherwise after what the device has to
// do, while the caller goes on, unless the shapes of its outputs follow from values. Returns its outputs. Throws the
// error of the kernel, naming op and inputs, if it has waited for it; else the outputs have it. cancelled: the device
// has ended.
std::vector<Output> run_op(Graph& graph, const std::shared_ptr<const PreparedOp>& op, const NodeSpec& call,
                           const RandomKey& random, OutstandingOps& outstanding);

}  // namespace troupe
