// The builder API of collectives in steps: what all tasks of a group run at the same place of the same graph.
//
// A node Contribute hands its tensor over as soon as that exists; a node Collect has the result, and starts what waits
// for it. In between the step goes on. Which group it is, and the number of the step, a run says
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

// The tensors of all ranks as one (devices/collective/collective.hpp), of the dtype and shape of x, on its device. Each
// call makes a channel of its own; all ranks must make the same ones in the same order.
Output all_reduce(Output x, const AllReduceOptions& options = {});

// Gradients travel in buckets: those of a dtype in the order in which backprop makes them, each full when it has this
// size.
inline constexpr std::size_t kBucketBytes = 512 << 10;

struct GradientsOptions {
  std::size_t bucket_bytes = kBucketBytes;
  // touching_slots: the mean of a sparse gradient's row is divided by the part of the ranks that have the row.
  SparseMean sparse_mean = SparseMean::all_slots;
};
// Each gradient's mean over all ranks, dense ones; sparse gradients become dense. Throws invalid_argument for a
// gradient whose shape is not fully known.
std::vector<GradientAndVariable> all_reduce_gradients(Graph& graph, std::span<const GradientAndVariable> gradients,
                                                      const GradientsOptions& options = {});

}  // namespace troupe
