#include "tests/kernels/emulated_cuda/emulated_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace troupe::emulated_cuda {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{4} << 30;  // of addresses
constexpr std::size_t kPage = 4096, kAlignment = 64, kBehind = 64;
constexpr int kGarbage = 0xee, kUntouched = 0xa5;

// Grows until nothing is in use, and begins anew. The same memory is at two addresses: the GPU's, and one of the
// emulation's own that is always readable.
struct Arena {
  Arena() {
    const int file = memfd_create("emulated GPU", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kArenaBytes) != 0) stop("no memory for an emulated GPU");
    begin = map(file, PROT_NONE);
    own = map(file, PROT_READ | PROT_WRITE);
    close(file);
  }
  static std::byte* map(int file, int access) {
    void* mapped = mmap(nullptr, kArenaBytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (mapped == MAP_FAILED) stop("no addresses for an emulated GPU");
    return static_cast<std::byte*>(mapped);
  }
  void protect(int access) const {
    if (mprotect(begin, (used + kPage - 1) / kPage * kPage, access) != 0)
      stop("mprotect of an emulated GPU's memory failed");
  }

  bool contains(const void* address) const {
    return std::less_equal<>()(begin, address) && std::less<>()(address, begin + kArenaBytes);
  }
  std::byte* own_view(const void* address) const { return own + (static_cast<const std::byte*>(address) - begin); }
  // Where the emulation finds what a copy is from or to; addresses of the host as they are.
  void* reach(const void* address, std::size_t bytes) const {
    if (!contains(address)) return const_cast<void*>(address);
    const auto after = live.upper_bound(const_cast<void*>(address));
    const auto* const first = static_cast<const std::byte*>(address);
    if (after == live.begin() ||
        first + bytes > static_cast<std::byte*>(std::prev(after)->first) + std::prev(after)->second)
      stop("a copy of %zu bytes touches memory of an emulated GPU that is not in use", bytes);
    return own_view(address);
  }

  std::byte* begin = nullptr;  // the GPU's addresses
  std::byte* own = nullptr;
  std::size_t used = kPage;
  int accesses = 0;
  std::map<void*, std::size_t> live;  // bytes, by the GPU's address
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
  std::byte* const data = a.begin + at;
  allow(data, bytes, true);
  allow(data + bytes, kBehind, false);
  std::memset(a.own_view(data), kGarbage, bytes);
  std::memset(a.own_view(data) + bytes, kUntouched, kBehind);
  a.live[data] = bytes;
  return data;
}

void release(void* memory) {
  Arena& a = arena();
  const auto found = a.live.find(memory);
  if (found == a.live.end()) stop("memory of an emulated GPU is released that is not in use");
  const std::byte* const behind = a.own_view(memory) + found->second;
  for (std::size_t i = 0; i < kBehind; ++i)
    if (behind[i] != std::byte{kUntouched})
      stop("a kernel wrote behind %zu bytes of an emulated GPU's memory", found->second);
  allow(static_cast<std::byte*>(memory), found->second, false);
  a.live.erase(found);
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(arena().reach(to, bytes), arena().reach(from, bytes), bytes);
}
void fill(void* to, int value, std::size_t bytes) {
  if (bytes > 0) std::memset(arena().reach(to, bytes), value, bytes);
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
