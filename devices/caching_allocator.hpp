// Memory in size classes; what is released is kept for the next of its class.
//
// An allocation from the cache and a release take one short lock each and allocate nothing. What is new is taken from
// the system outside of the lock. At the limit, first what is cached goes back to the system, largest first; then
// allocate() throws, and names the largest live tensors.
#pragma once

#include <memory>

#include <troupe/devices/allocator.hpp>

namespace troupe {

// Where memory comes from. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // `bytes`: a multiple of 64. Null if there is no memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data, std::size_t bytes) noexcept = 0;
  virtual MemorySpace space() const = 0;
  // Larger buffers go back at once.
  virtual std::size_t largest_kept() const = 0;
  // What others have in use of the same memory, for errors: "64.00 MiB in 3 buffers (...) of ..."; "": nobody else.
  virtual std::string also_in_use() const { return {}; }
};

// The host's, of up to 1 GiB kept.
std::shared_ptr<MemorySource> host_memory();

// Buffers keep the cache alive, so they may outlive the allocator.
class CachingAllocator final : public Allocator {
 public:
  // `limit`: bytes that buffers in use and cached ones may have together; 0: no limit.
  // `label`: who asks for memory on the calling thread.
  explicit CachingAllocator(std::uint64_t limit = 0, std::shared_ptr<MemorySource> source = host_memory(),
                            AllocationLabel (*label)() = &AllocationScope::label);
  ~CachingAllocator() override;
  BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) override;
  using Allocator::allocate;
  AllocatorStats stats() const override;
  std::vector<LiveBuffer> largest(std::size_t count) const override;
  MemorySpace space() const override;
  // Gives back to the system what is cached.
  void trim();
  // "64.00 MiB in 3 buffers (f32[784,128], 392.00 KiB, of MatMul 'dense'; ...)", the largest first.
  std::string in_use() const;

 private:
  class Cache;
  class CachedBuffer;
  Cache* cache_;  // ends with the last of this and its buffers
};

}  // namespace troupe
