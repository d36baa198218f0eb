// Memory in size classes; released buffers are kept for reuse by their class.
//
// An allocation from the cache and a release each take one short lock and allocate nothing. New memory is taken from
// the system outside of the lock. At the limit, cached buffers are first returned to the system, largest first; then
// allocate() throws, naming the largest live tensors.
#pragma once

#include <memory>

#include <troupe/devices/allocator.hpp>

namespace troupe {

// Source of memory. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Allocates `bytes`, a multiple of 64. Null if there is no memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data, std::size_t bytes) noexcept = 0;
  virtual MemorySpace space() const = 0;
  // The size above which buffers are freed instead of cached.
  virtual std::size_t largest_kept() const = 0;
  // Use of the same memory by others, for errors: "64.00 MiB in 3 buffers (...) of ..."; "": none.
  virtual std::string also_in_use() const { return {}; }
};

// Host memory; keeps buffers of up to 1 GiB.
std::shared_ptr<MemorySource> host_memory();

// Buffers keep the cache alive, so they may outlive the allocator.
class CachingAllocator final : public Allocator {
 public:
  // `limit`: maximum bytes of buffers in use and cached together; 0: no limit. `label`: names the node that allocates
  // on the calling thread.
  explicit CachingAllocator(std::uint64_t limit = 0, std::shared_ptr<MemorySource> source = host_memory(),
                            AllocationLabel (*label)() = &AllocationScope::label);
  ~CachingAllocator() override;
  BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) override;
  using Allocator::allocate;
  AllocatorStats stats() const override;
  std::vector<LiveBuffer> largest(std::size_t count) const override;
  MemorySpace space() const override;
  // Returns cached memory to the system.
  void trim();
  // "64.00 MiB in 3 buffers (f32[784,128], 392.00 KiB, of MatMul 'dense'; ...)", the largest first.
  std::string in_use() const;

 private:
  class Cache;
  class CachedBuffer;
  Cache* cache_;  // deleted with the last of the allocator and its buffers
};

}  // namespace troupe
