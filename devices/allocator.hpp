// Allocators give buffers of one memory space, and know what the live ones hold.
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

// Bytes are those of the size classes: what is kept from others, a little more than was asked for.
struct AllocatorStats {
  std::uint64_t bytes_in_use = 0;
  std::uint64_t peak_bytes = 0;    // the most that was in use at once
  std::uint64_t cached_bytes = 0;  // released, and kept for the next
  std::uint64_t limit_bytes = 0;   // that in use and cached never exceed; 0: none
  std::uint64_t allocations = 0;   // since the start
  std::uint64_t reuses = 0;        // of them, served from the cache
  std::uint64_t fresh = 0;         // of them, served by the system

  // Of allocators that share one memory and its limit. Their peaks may have been at different times: then the sum is
  // more than ever was in use.
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

// A buffer that is in use.
struct LiveBuffer {
  std::string type{};  // "f32[784,128]"; "": not one tensor
  std::string op{};    // of the node that it was allocated for, long names without their middle; "": of none
  std::string node{};
  std::uint64_t bytes = 0;
};

// For whom memory is allocated, as an out-of-memory error names it.
struct AllocationLabel {
  std::string_view op{};
  std::string_view node{};
};

// Who runs nodes can tell which one runs now. Asked on the same thread, for each allocation.
class AllocationSource {
 public:
  virtual AllocationLabel allocating() const = 0;

 protected:
  ~AllocationSource() = default;
};

// While it lives, what its thread allocates is labelled by `source`. One for a whole segment will do: it costs a node
// nothing, and an allocation the copy of a name.
class AllocationScope {
 public:
  explicit AllocationScope(const AllocationSource& source) : outer_(std::exchange(current_, &source)) {}
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;
  ~AllocationScope() { current_ = outer_; }

  // Of the calling thread; empty outside of any scope.
  static AllocationLabel label() { return current_ ? current_->allocating() : AllocationLabel{}; }

 private:
  const AllocationSource* outer_;
  static inline constinit thread_local const AllocationSource* current_ = nullptr;
};

// Thread-safe. A buffer may outlive the call, be released on any thread, and outlive the allocator.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes`, aligned to kBufferAlignment, not cleared. Throws resource_exhausted, naming what is in use, the
  // limit and the largest live tensors. `dtype` and `shape` say what the buffer is to hold, if that is one tensor.
  virtual BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) = 0;
  BufferRef allocate(std::size_t bytes) { return allocate(bytes, DType::invalid, Shape{}); }
  virtual AllocatorStats stats() const = 0;
  // The largest buffers in use, at most `count`, the largest first. Waits for no allocation but the lock of one.
  virtual std::vector<LiveBuffer> largest(std::size_t /*count*/) const { return {}; }
  virtual MemorySpace space() const = 0;

  // A new tensor. Strings always live in ordinary host memory.
  Tensor tensor(DType dtype, const Shape& shape) {
    if (dtype == DType::string) return Tensor(dtype, shape);
    return Tensor(dtype, shape, allocate(checked_bytes(dtype, shape), dtype, shape));
  }
};

}  // namespace troupe
