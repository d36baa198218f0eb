// Gathers the examples of a step's slot into tensors.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/kernels/readers/dataset.hpp>
#include <troupe/scheduler/trace/trace.hpp>
#include <troupe/scheduler/training/permutation.hpp>

namespace troupe {

// Examples [begin, end) of an epoch's permutation of the training set (docs/design/training.md).
class EpochBatches {
 public:
  // `in_use`: batches held at a time. `memory`: Batch::memory.
  EpochBatches(const Dataset& train, std::uint64_t seed, std::size_t in_use, Allocator* memory, Trace& trace)
      : train_(train),
        seed_(seed),
        batches_(in_use, Batch{.images = {}, .labels = {}, .memory = memory}),
        trace_(trace) {}

  // `in_use` calls later the batch's tensors may be reused, once nobody else holds them.
  const Batch& get(std::uint32_t epoch, std::uint64_t begin, std::uint64_t end) {
    const TraceSlice traced(trace_, TraceKind::work, "batch");
    if (order_.empty() || epoch != epoch_) {
      order_ = permutation(seed_, epoch, static_cast<std::uint64_t>(train_.size()));
      epoch_ = epoch;
    }
    if (end > order_.size() || begin > end)
      fail(Code::out_of_range, "examples [{}, {}) exceed the {} of the training set", begin, end, order_.size());
    indices_.assign(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                    order_.begin() + static_cast<std::ptrdiff_t>(end));
    Batch& batch = batches_[next_];
    next_ = (next_ + 1) % batches_.size();
    gather(train_, indices_, batch);
    return batch;
  }

 private:
  const Dataset& train_;
  std::uint64_t seed_;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> order_;
  std::vector<std::int64_t> indices_;
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
  Trace& trace_;
};

}  // namespace troupe
