#include "tests/kernels/emulated_cuda/emulated_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace troupe::emulated_cuda {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{4} << 30;  // of addresses
constexpr std::size_t kPage = 4096, kAlignment = 64, kBehind = 64;
constexpr int kGarbage = 0xee, kUntouched = 0xa5;

// Grows until nothing is in use, and begins anew.
struct Arena {
  Arena() {
    void* mapped = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) stop("no memory for an emulated GPU");
    begin = static_cast<std::byte*>(mapped);
  }
  void protect(int access) const {
    if (mprotect(begin, (used + kPage - 1) / kPage * kPage, access) != 0)
      stop("mprotect of an emulated GPU's memory failed");
  }

  std::byte* begin = nullptr;
  std::size_t used = kPage;
  int accesses = 0;
  std::map<void*, std::size_t> live;
};

Arena& arena() {
  static Arena* const one = new Arena;
  return *one;
}

// For AddressSanitizer: may [data, data + bytes) be touched?
void allow([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes, [[maybe_unused]] bool allowed) {
#ifdef __SANITIZE_ADDRESS__
  if (allowed)
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  else
    ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}

}  // namespace

void* allocate(std::size_t bytes) {
  Arena& a = arena();
  if (a.live.empty()) a.used = kPage;
  // Odd multiples of the alignment.
  const std::size_t at = (a.used + 2 * kAlignment - 1) / (2 * kAlignment) * (2 * kAlignment) + kAlignment;
  if (bytes > kArenaBytes || at + bytes + kBehind > kArenaBytes) return nullptr;
  a.used = at + bytes + kBehind;
  if (a.accesses > 0) a.protect(PROT_READ | PROT_WRITE);
  const MemoryAccess access;
  std::byte* const data = a.begin + at;
  allow(data, bytes + kBehind, true);
  std::memset(data, kGarbage, bytes);
  std::memset(data + bytes, kUntouched, kBehind);
  allow(data + bytes, kBehind, false);
  a.live[data] = bytes;
  return data;
}

void release(void* memory) {
  Arena& a = arena();
  const auto found = a.live.find(memory);
  if (found == a.live.end()) stop("memory of an emulated GPU is released that is not in use");
  auto* const data = static_cast<std::byte*>(memory);
  {
    const MemoryAccess access;
    allow(data + found->second, kBehind, true);
    for (std::size_t i = 0; i < kBehind; ++i)
      if (data[found->second + i] != std::byte{kUntouched})
        stop("a kernel wrote behind %zu bytes of an emulated GPU's memory", found->second);
    allow(data, found->second + kBehind, false);
  }
  a.live.erase(found);
}

MemoryAccess::MemoryAccess() {
  if (arena().accesses++ == 0) arena().protect(PROT_READ | PROT_WRITE);
}
MemoryAccess::~MemoryAccess() {
  if (--arena().accesses == 0) arena().protect(PROT_NONE);
}

void stop(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("emulated GPU: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputs("\n", stderr);
  va_end(arguments);
  std::abort();
}

}  // namespace troupe::emulated_cuda
