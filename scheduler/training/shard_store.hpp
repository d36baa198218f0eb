// What a shard asks of whatever keeps its values.
#pragma once

#include <cstdint>

#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/training/gradient.hpp>
#include <troupe/scheduler/training/kept_value.hpp>

namespace troupe {

struct Update {
  PushedGradient gradient;
  std::uint64_t step = 0;  // number of this update of the slice, from 1: Adam's t
  double rate_scale = 1;   // multiplies the learning rate
};

// The values of a shard's slices and the kernels that update them.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  // The current value of a slice. The handle's contents never change: apply must not write to memory with another
  // holder. Of a slice on demand: the numbers of its updated rows.
  virtual Tensor value(std::uint32_t slice) = 0;
  // These rows of it (i64 [n]), copied.
  virtual Tensor rows(std::uint32_t slice, const Tensor& rows) { return rows_of(value(slice), rows); }
  // Keeps the current value as the one that training ends with, instead of an earlier one; returns it, or the current
  // value if none was kept.
  virtual void keep_as_final(std::uint32_t slice) = 0;
  virtual Tensor final_value(std::uint32_t slice) = 0;
  // Updates a slice and its optimizer slots. An exception fails the shard.
  virtual void apply(std::uint32_t slice, const Update& update) = 0;
};

}  // namespace troupe
