// Memory sources for CachingAllocator: GPU memory, and pinned host memory that the GPU copies from and to directly.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/devices/caching_allocator.hpp>
#include <troupe/devices/cuda/cuda_driver.hpp>

namespace troupe {

std::shared_ptr<MemorySource> cuda_memory(std::shared_ptr<CudaDriver> driver, int ordinal);
std::shared_ptr<MemorySource> pinned_memory(std::shared_ptr<CudaDriver> driver, int ordinal);

// Bytes held by all caches of a GPU together.
struct CudaMemoryUse {
  const std::uint64_t limit;  // 0: none
  std::atomic<std::uint64_t> bytes{0};
};

// GPU memory for one of two caches: when it runs out, the other cache frees its unused buffers.
class SharedCudaMemory final : public MemorySource {
 public:
  SharedCudaMemory(std::shared_ptr<MemorySource> memory, std::shared_ptr<CudaMemoryUse> use);
  // Call before the first allocation; `other` must live as long as this source is used. `content`: what `other` holds,
  // for messages.
  void share_with(CachingAllocator* other, const char* content);

  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  MemorySpace space() const override { return memory_->space(); }
  std::size_t largest_kept() const override { return memory_->largest_kept(); }
  std::string also_in_use() const override;

 private:
  void* take(std::size_t bytes);

  const std::shared_ptr<MemorySource> memory_;
  const std::shared_ptr<CudaMemoryUse> use_;
  CachingAllocator* other_ = nullptr;
  const char* content_of_other_ = "";
};

}  // namespace troupe
