#include "troupe/scheduler/data/batch_ring.hpp"

#include <algorithm>

namespace troupe {

BatchRing::BatchRing(const BatchPlan& plan) : memory_(plan.memory), ring_(std::max<std::size_t>(1, plan.in_use)) {}

Batch BatchRing::take(const BatchSchema& schema, std::int64_t examples) {
  // Tensors that only the ring holds are nobody's: others get them here, under the lock.
  const std::lock_guard lock(mutex_);
  std::vector<Tensor>& tensors = ring_[next_];
  next_ = (next_ + 1) % ring_.size();
  tensors.resize(schema.size());
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const DType dtype = schema[i].dtype;
    const Shape shape = schema[i].batch_shape(examples);
    Tensor& tensor = tensors[i];
    if (tensor.valid() && tensor.dtype() == dtype && tensor.shape() == shape && tensor.unique()) continue;
    tensor = memory_ && dtype != DType::string ? memory_->tensor(dtype, shape) : Tensor(dtype, shape);
  }
  return {tensors, examples};
}

}  // namespace troupe
