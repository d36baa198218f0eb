#include "troupe/actors/serving/weight_pool.hpp"

#include <utility>

#include <troupe/devices/storage/crc32c.hpp>

namespace troupe {
namespace {

// Not a view of something larger, like a mapped file: that would stay, whatever the tensor is replaced by.
bool has_own_memory(const Tensor& tensor) {
  return tensor.dtype() != DType::string && tensor.buffer() && tensor.space().on_host() &&
         tensor.buffer()->size() - tensor.num_bytes() < kBufferAlignment;
}

}  // namespace

WeightShares WeightPool::share(Parameters& values) {
  WeightShares out;
  for (auto& [name, tensor] : values) {
    if (tensor.num_bytes() < kSmallest || !has_own_memory(tensor)) continue;
    out.push_back(shared(tensor));
    tensor = *out.back();
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(tensors_, [](const auto& entry) { return entry.second.expired(); });
  return out;
}

std::shared_ptr<const Tensor> WeightPool::shared(const Tensor& tensor) {
  const std::uint32_t checksum = crc32c(std::span(tensor.raw(), tensor.num_bytes()));
  WeightShares candidates;
  {
    const std::lock_guard lock(mutex_);
    for (auto [at, end] = tensors_.equal_range(checksum); at != end; ++at)
      if (auto candidate = at->second.lock()) candidates.push_back(std::move(candidate));
  }
  for (const auto& candidate : candidates)
    if (bitwise_equal(*candidate, tensor)) return candidate;
  auto own = std::make_shared<const Tensor>(tensor);
  const std::lock_guard lock(mutex_);
  tensors_.emplace(checksum, own);
  return own;
}

std::size_t WeightPool::bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t out = 0;
  for (const auto& [checksum, tensor] : tensors_)
    if (const auto alive = tensor.lock()) out += alive->num_bytes();
  return out;
}

}  // namespace troupe
