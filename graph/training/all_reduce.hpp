// Builder API for collectives in steps: all tasks of a group run them at the same place of the same graph.
//
// A Contribute node hands over its tensor as soon as it exists; a Collect node receives the result and starts its
// consumers. The step continues in between. The group and the number of the step are set per run
// (RunOptions::training).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/training/sparse_mean.hpp>

namespace troupe {

struct AllReduceOptions {
  std::string reduction = "mean";  // sum, mean or max
  Name name = "all_reduce";
};

// Reduces the tensors of all ranks to one (devices/collective/collective.hpp), with the dtype and shape of x, on its
// device. Each call creates its own channel; all ranks must make the same calls in the same order.
Output all_reduce(Output x, const AllReduceOptions& options = {});

// Gradients travel in buckets: one dtype each, in the order in which backprop produces them, full at this size.
inline constexpr std::size_t kBucketBytes = 512 << 10;

struct GradientsOptions {
  std::size_t bucket_bytes = kBucketBytes;
  // touching_slots: the mean of a sparse gradient's row is divided by the fraction of ranks that have the row.
  SparseMean sparse_mean = SparseMean::all_slots;
};
// Each gradient's mean over all ranks. A sparse one stays so: ranks tell each other which rows they have, one number
// for each row of the variable, and then reduce those that any has. Throws invalid_argument for a gradient whose shape,
// or for a sparse one that of its variable, is not fully known.
std::vector<GradientAndVariable> all_reduce_gradients(Graph& graph, std::span<const GradientAndVariable> gradients,
                                                      const GradientsOptions& options = {});

}  // namespace troupe
