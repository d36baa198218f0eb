// Host memory in size classes; what is released is kept for the next of its class.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "devices/allocator.hpp"

namespace troupe {

// Buffers hold the cache alive, so they may outlive the allocator.
class CachingAllocator final : public Allocator {
 public:
  CachingAllocator();
  ~CachingAllocator() override;
  BufferRef allocate(std::size_t bytes) override;
  AllocatorStats stats() const override;
  MemorySpace space() const override { return {}; }

 private:
  class Cache;
  class CachedBuffer;
  std::shared_ptr<Cache> cache_;
};

}  // namespace troupe
