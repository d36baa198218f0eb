// The memory of a reader's batches, which is used again.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

// Thread-safe.
class BatchRing {
 public:
  // As BatchPlan says: how many are in use, and whose memory it is.
  explicit BatchRing(const BatchPlan& plan);
  // A batch of the schema, which has no unknown dimensions; what its tensors hold is left to the caller to write.
  Batch take(const BatchSchema& schema, std::int64_t examples);

 private:
  Allocator* const memory_;
  std::mutex mutex_;
  std::vector<std::vector<Tensor>> ring_;
  std::size_t next_ = 0;
};

}  // namespace troupe
