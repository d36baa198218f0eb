#include "troupe/messages/buffer.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

class HostBuffer final : public Buffer {
 public:
  using Buffer::Buffer;
  ~HostBuffer() override { std::free(data()); }
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
  void* data = std::aligned_alloc(kBufferAlignment, rounded == 0 ? kBufferAlignment : rounded);
  if (!data) fail(Code::resource_exhausted, "cannot allocate a buffer of {} bytes", bytes);
  prefer_large_pages(data, rounded);
  return BufferRef(new HostBuffer(data, bytes, MemorySpace{}));
}

}  // namespace troupe
