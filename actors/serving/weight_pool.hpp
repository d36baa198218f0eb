// Memory that equal weights share: those of several versions of a model, where training has changed only some, or of
// models that are made of one another.
//
//   const WeightShares shares = pool.share(model.values);  // keep them as long as the model
//
// Files of tensors that are mapped are not read for this (actors/model/saved_model.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// What others may share. Memory goes back once no share and no model has it any more.
using WeightShares = std::vector<std::shared_ptr<const Tensor>>;

// Thread-safe. Shares outlive it.
class WeightPool {
 public:
  static constexpr std::size_t kSmallest = 64 << 10;  // bytes: smaller tensors are not worth it

  // Replaces tensors of numbers that have memory of their own by equal ones, of the same dtype, shape and bytes, that
  // somebody has a share of. Nobody may write to them afterwards.
  [[nodiscard]] WeightShares share(Parameters& values);
  // Of the tensors that somebody has a share of.
  std::size_t bytes() const;

 private:
  std::shared_ptr<const Tensor> shared(const Tensor& tensor);

  mutable std::mutex mutex_;
  std::multimap<std::uint32_t, std::weak_ptr<const Tensor>> tensors_;  // by checksum of their bytes
};

}  // namespace troupe
