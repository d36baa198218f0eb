// Buffers: reference-counted memory of one device. Tensors are views of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace troupe {

inline constexpr std::size_t kBufferAlignment = 64;

// The location of memory. Code may dereference `host` and `pinned` only.
struct MemorySpace {
  enum class Kind : std::uint8_t { host, pinned, cuda };
  Kind kind = Kind::host;
  int ordinal = 0;  // GPU index
  bool on_host() const { return kind != Kind::cuda; }
  bool operator==(const MemorySpace&) const = default;
};

// Memory with an intrusive reference count. Makers of buffers derive from it and release the memory in the destructor.
// `data` is aligned to kBufferAlignment.
class Buffer {
 public:
  // Borrowed memory belongs to somebody outside, who must not see it change: it is never unique, so that nobody writes
  // in place.
  enum class Sharing : std::uint8_t { owned, borrowed };
  Buffer(void* data, std::size_t size, MemorySpace space, Sharing sharing = Sharing::owned)
      : data_(data), size_(size), space_(space), last_(sharing == Sharing::owned ? 1 : 2), count_(last_) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  MemorySpace space() const { return space_; }

  void ref() { count_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    const std::uint32_t last = last_;  // read now: once the count is lower, another thread may free this
    // The only holder need not lock the count.
    if (count_.load(std::memory_order_acquire) == last || count_.fetch_sub(1, std::memory_order_acq_rel) == last)
      release();
  }
  bool unique() const { return references() == 1; }
  std::uint32_t references() const { return count_.load(std::memory_order_acquire); }

 protected:
  // Called when the last reference is gone. Caching allocators override it.
  virtual void release() { delete this; }
  void reset_count() { count_.store(last_, std::memory_order_relaxed); }

 private:
  void* data_;
  std::size_t size_;
  MemorySpace space_;
  const std::uint32_t last_;  // the count of the last reference
  std::atomic<std::uint32_t> count_;
};

// Owns one reference.
class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(Buffer* adopted) : buffer_(adopted) {}
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
    if (buffer_) buffer_->ref();
  }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() {
    if (buffer_) buffer_->unref();
  }
  Buffer* get() const { return buffer_; }
  Buffer* operator->() const { return buffer_; }
  explicit operator bool() const { return buffer_ != nullptr; }

 private:
  Buffer* buffer_ = nullptr;
};

// Allocates host memory from the C library, aligned, not cleared. Throws resource_exhausted.
BufferRef allocate_host(std::size_t bytes);

}  // namespace troupe
