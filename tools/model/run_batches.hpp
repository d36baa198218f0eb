// troupe-model run on many examples: batch after batch, here or on the workers of a cluster.
#pragma once

#include "tools/model/commands.hpp"

namespace troupe::model_tool {

// Whether the options ask for it: --batch or --cluster.
bool in_batches(const Options& options);
// Takes a data set, whose components are the inputs by their names: any that troupe-data reads, or a file of tensors.
// Throws what LoadedModel::predict() throws.
int run_batches(FileSystem& files, const Options& options);

}  // namespace troupe::model_tool
