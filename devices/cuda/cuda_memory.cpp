#include "troupe/devices/cuda/cuda_memory.hpp"

#include <fmt/core.h>

#include <utility>

namespace troupe {
namespace {

class CudaMemory final : public MemorySource {
 public:
  CudaMemory(std::shared_ptr<CudaDriver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}
  void* allocate(std::size_t bytes) override {
    driver_->use(ordinal_);
    return driver_->allocate(bytes);
  }
  // CUDA itself waits for kernels that may still use the memory.
  void free(void* data, std::size_t) noexcept override { driver_->free(data); }
  MemorySpace space() const override { return {MemorySpace::Kind::cuda, ordinal_}; }
  std::size_t largest_kept() const override {
    return std::size_t{1} << 36;
  }  // freeing memory synchronises the whole GPU

 private:
  std::shared_ptr<CudaDriver> driver_;
  int ordinal_;
};

class PinnedMemory final : public MemorySource {
 public:
  PinnedMemory(std::shared_ptr<CudaDriver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}
  void* allocate(std::size_t bytes) override {
    driver_->use(ordinal_);
    return driver_->allocate_pinned(bytes);
  }
  void free(void* data, std::size_t) noexcept override { driver_->free_pinned(data); }
  MemorySpace space() const override { return {MemorySpace::Kind::pinned, ordinal_}; }
  std::size_t largest_kept() const override { return std::size_t{1} << 30; }

 private:
  std::shared_ptr<CudaDriver> driver_;
  int ordinal_;
};

}  // namespace

std::shared_ptr<MemorySource> cuda_memory(std::shared_ptr<CudaDriver> driver, int ordinal) {
  return std::make_shared<CudaMemory>(std::move(driver), ordinal);
}
std::shared_ptr<MemorySource> pinned_memory(std::shared_ptr<CudaDriver> driver, int ordinal) {
  return std::make_shared<PinnedMemory>(std::move(driver), ordinal);
}

SharedCudaMemory::SharedCudaMemory(std::shared_ptr<MemorySource> memory, std::shared_ptr<CudaMemoryUse> use)
    : memory_(std::move(memory)), use_(std::move(use)) {}

void SharedCudaMemory::share_with(CachingAllocator* other, const char* content) {
  other_ = other;
  content_of_other_ = content;
}

void* SharedCudaMemory::allocate(std::size_t bytes) {
  void* const data = take(bytes);
  if (data || !other_) return data;
  other_->trim();
  return take(bytes);
}

void SharedCudaMemory::free(void* data, std::size_t bytes) noexcept {
  memory_->free(data, bytes);
  use_->bytes -= bytes;
}

std::string SharedCudaMemory::also_in_use() const {
  if (!other_ || other_->stats().bytes_in_use == 0) return {};
  return fmt::format("{} of {}", other_->in_use(), content_of_other_);
}

void* SharedCudaMemory::take(std::size_t bytes) {
  const std::uint64_t all = use_->bytes += bytes;
  void* const data = use_->limit == 0 || all <= use_->limit ? memory_->allocate(bytes) : nullptr;
  if (!data) use_->bytes -= bytes;
  return data;
}

}  // namespace troupe
