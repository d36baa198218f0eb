#include "troupe/devices/host_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace troupe {
namespace {

constexpr std::size_t kMapped = std::size_t{4} << 20;
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

class ReservedPages final : public Buffer {
 public:
  using Buffer::Buffer;
  ~ReservedPages() override { ::munmap(data(), round_up(size(), kPage)); }
};

}  // namespace

void* allocate_host_pages(std::size_t bytes) {
  if (bytes < kMapped) return std::aligned_alloc(kBufferAlignment, bytes);
  // Over-allocates to align to a large page; the excess is returned.
  const std::size_t length = round_up(bytes, kPage);
  void* const mapped = ::mmap(nullptr, length + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before =
      round_up(reinterpret_cast<std::uintptr_t>(begin), kLargePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) ::munmap(begin, before);
  if (before < kLargePage) ::munmap(begin + before + length, kLargePage - before);
  ::madvise(begin + before, length, MADV_HUGEPAGE);  // if refused, small pages are used
  return begin + before;
}

void free_host_pages(void* data, std::size_t bytes) {
  if (bytes < kMapped)
    std::free(data);
  else
    ::munmap(data, round_up(bytes, kPage));
}

BufferRef reserve_host_pages(std::size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* data = bytes == 0 ? MAP_FAILED : ::mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (data == MAP_FAILED) return {};
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return BufferRef(new ReservedPages(data, bytes, MemorySpace{}));
}

}  // namespace troupe
