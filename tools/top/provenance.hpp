// The gradients that made a version of the parameters: asks the shard of a task, or those of all ps tasks in the
// cluster file, through their nodes.
#pragma once

#include "tools/top/options.hpp"

namespace troupe::top {

// Prints the shards' answers; `options.provenance` must be set. Returns the exit code: 1 if a shard does not answer.
int print_provenance(const Options& options);

}  // namespace troupe::top
