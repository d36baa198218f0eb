// What went into a version of the parameters: asks the shard of a task, or those of all ps tasks of the cluster file,
// through their nodes.
#pragma once

#include "tools/top/options.hpp"

namespace troupe::top {

// Prints what the shards say; `options.provenance` is given. Returns the exit code: 1 if one does not answer.
int print_provenance(const Options& options);

}  // namespace troupe::top
