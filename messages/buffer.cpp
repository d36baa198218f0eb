#include "troupe/messages/buffer.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* allocated, void* data, std::size_t bytes) : Buffer(data, bytes, {}), allocated_(allocated) {}
  ~HostBuffer() override { std::free(allocated_); }

 private:
  void* const allocated_;
};

// Above this size malloc always maps memory of its own: advice about it ends with it.
constexpr std::size_t kMappedAlone = std::size_t{32} << 20;
constexpr std::uintptr_t kHostPage = 4096;

// Reading or changing rows anywhere in a table misses the TLB at each with small pages: updates take twice as long.
void prefer_large_pages(void* data, std::size_t bytes) {
  if (bytes <= kMappedAlone) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data), first = (begin + kHostPage - 1) / kHostPage * kHostPage;
  ::madvise(reinterpret_cast<void*>(first), (begin + bytes - first) / kHostPage * kHostPage, MADV_HUGEPAGE);
}

}  // namespace

BufferRef allocate_host(std::size_t bytes) {
  const std::size_t rounded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded < bytes) fail(Code::resource_exhausted, "cannot allocate a buffer of {} bytes", bytes);
  // Not aligned_alloc(): that of glibc before 2.38 looks for more than it takes, so what is freed has no room for
  // another buffer of its size, and a process that makes batch after batch grows.
  std::size_t room = rounded + kBufferAlignment;
  void* const allocated = room < rounded ? nullptr : std::malloc(room);
  if (!allocated) fail(Code::resource_exhausted, "cannot allocate a buffer of {} bytes", bytes);
  void* data = allocated;
  std::align(kBufferAlignment, rounded, data, room);
  prefer_large_pages(data, rounded);
  return BufferRef(new HostBuffer(allocated, data, bytes));
}

}  // namespace troupe
