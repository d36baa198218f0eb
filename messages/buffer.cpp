#include "troupe/messages/buffer.hpp"

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

}  // namespace

BufferRef allocate_host(std::size_t bytes) {
  const std::size_t rounded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded < bytes) fail(Code::resource_exhausted, "cannot allocate a buffer of {} bytes", bytes);
  void* data = std::aligned_alloc(kBufferAlignment, rounded == 0 ? kBufferAlignment : rounded);
  if (!data) fail(Code::resource_exhausted, "cannot allocate a buffer of {} bytes", bytes);
  return BufferRef(new HostBuffer(data, bytes, MemorySpace{}));
}

}  // namespace troupe
