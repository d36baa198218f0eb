// Allocators hand out buffers of one memory space and keep track of the live ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/messages/buffer.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Bytes are those of the size classes, slightly more than requested.
struct AllocatorStats {
  std::uint64_t bytes_in_use = 0;
  std::uint64_t peak_bytes = 0;    // maximum of bytes_in_use so far
  std::uint64_t cached_bytes = 0;  // released and kept for reuse
  std::uint64_t limit_bytes = 0;   // maximum of bytes_in_use + cached_bytes; 0: none
  std::uint64_t allocations = 0;   // since the start
  std::uint64_t reuses = 0;        // allocations served from the cache
  std::uint64_t fresh = 0;         // allocations served by the system

  // Sums allocators that share one memory and its limit. Their peaks may be from different times, so the sum may exceed
  // the real peak.
  AllocatorStats& operator+=(const AllocatorStats& other) {
    bytes_in_use += other.bytes_in_use;
    peak_bytes += other.peak_bytes;
    cached_bytes += other.cached_bytes;
    limit_bytes = std::max(limit_bytes, other.limit_bytes);
    allocations += other.allocations;
    reuses += other.reuses;
    fresh += other.fresh;
    if (limit_bytes != 0) peak_bytes = std::min(peak_bytes, limit_bytes);
    return *this;
  }
};

// A buffer in use.
struct LiveBuffer {
  std::string type{};  // "f32[784,128]"; "": not a single tensor
  std::string op{};    // of the node it was allocated for, long names with the middle cut out; "": no node
  std::string node{};
  std::uint64_t bytes = 0;
};

// The node that memory is allocated for, as out-of-memory errors name it.
struct AllocationLabel {
  std::string_view op{};
  std::string_view node{};
};

// Names the node that is running. Called on the allocating thread, for each allocation.
class AllocationSource {
 public:
  virtual AllocationLabel allocating() const = 0;

 protected:
  ~AllocationSource() = default;
};

// While alive, labels the calling thread's allocations by `source`. One scope can cover a whole segment: a node costs
// nothing, an allocation the copy of a name.
class AllocationScope {
 public:
  explicit AllocationScope(const AllocationSource& source) : outer_(std::exchange(current_, &source)) {}
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;
  ~AllocationScope() { current_ = outer_; }

  // The calling thread's label; empty outside of any scope.
  static AllocationLabel label() { return current_ ? current_->allocating() : AllocationLabel{}; }

 private:
  const AllocationSource* outer_;
  static inline constinit thread_local const AllocationSource* current_ = nullptr;
};

// Thread-safe. A buffer may outlive the call, be released on any thread, and outlive the allocator.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Allocates at least `bytes`, aligned to kBufferAlignment, not cleared. Throws resource_exhausted, naming the memory
  // in use, the limit and the largest live tensors. `dtype` and `shape` describe the buffer's content if it is a single
  // tensor.
  virtual BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) = 0;
  BufferRef allocate(std::size_t bytes) { return allocate(bytes, DType::invalid, Shape{}); }
  virtual AllocatorStats stats() const = 0;
  // The largest buffers in use, at most `count`, largest first. Waits at most for the lock of one allocation.
  virtual std::vector<LiveBuffer> largest(std::size_t /*count*/) const { return {}; }
  virtual MemorySpace space() const = 0;

  // Allocates a tensor. Strings always live in ordinary host memory.
  Tensor tensor(DType dtype, const Shape& shape) {
    if (dtype == DType::string) return Tensor(dtype, shape);
    return Tensor(dtype, shape, allocate(checked_bytes(dtype, shape), dtype, shape));
  }
};

}  // namespace troupe
