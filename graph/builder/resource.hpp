// Adds the handles and calls of resources: queue.hpp, accumulator.hpp and hash_table.hpp have the classes.
#pragma once

#include <string>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct ResourceOptions {
  Name name{};           // relative to the scope; made unique. Default: the op's
  std::string device{};  // a CPU, on which all its ops run; default: that of the scope
};

// Adds the node of a resource; in eager mode makes one, also in a function that is traced, each time it is.
Output add_resource(Graph& graph, Name op, Attributes attributes, ResourceOptions options);
// Adds a node that may wait for a resource, its first input. Throws unimplemented in the body of a loop or branch, like
// the next.
Outputs add_resource_call(Name op, Output handle, Outputs inputs, Attributes attributes, Name name);
// Adds a node without outputs that waits for a resource or changes it; returns it as a target.
Output add_resource_target(Name op, Output handle, Outputs inputs, Attributes attributes, Name name);

}  // namespace troupe
