// Makes each call of a queue or an accumulator what the runtime understands: its values become one list, which a
// departure hands to the resource; the answer is an arrival, so that what follows waits without a thread.
//
//   QueueDequeueMany(queue, n)  =  CallValues(n) -> CallRequest(queue, values), CallAnswer -> CallResults -> outputs
//
// All four are on the device of the resource. Runs behind the optimizations, before placement.
#pragma once

#include <memory>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Whether the op calls a resource and may wait.
bool calls_resource(const OpDef& op);
bool has_resource_calls(const Graph& graph);

// Throws unimplemented for a call in the body of a loop or branch.
std::unique_ptr<Graph> expand_resource_calls(const Graph& graph);

// Edges of calls are numbered from here on; tensors that cross devices have lower numbers, pulls higher ones.
inline constexpr std::int64_t kFirstCallEdge = 0x40000000;

}  // namespace troupe
