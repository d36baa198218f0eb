#include "tools/bench/peers/shared_memory_peer.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <vector>

#include "tools/bench/children.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

constexpr std::size_t kBlocks = 16, kBlock = std::size_t{256} << 10;

[[noreturn]] void fail_memory(const char* what) {
  fail(Code::unavailable, "shared memory: {}: {}", what, std::strerror(errno));
}

void wait(sem_t& semaphore) {
  while (::sem_wait(&semaphore) != 0)
    if (errno != EINTR) fail_memory("sem_wait");
}

}  // namespace

struct SharedMemoryPeer::Ring {
  sem_t free, full, received;  // blocks, blocks, all messages
  std::array<std::array<char, kBlock>, kBlocks> blocks;
};

// The ring, mapped in this process.
class SharedMemoryPeer::Mapping {
 public:
  // Closes `fd`.
  explicit Mapping(int fd) {
    void* const at = ::mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (at == MAP_FAILED) fail_memory("mmap");
    ring_ = static_cast<Ring*>(at);
  }
  ~Mapping() { ::munmap(ring_, sizeof(Ring)); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Ring& operator*() const { return *ring_; }
  Ring* operator->() const { return ring_; }

  // Calls visit(block of the ring, offset in the message, bytes) for each block of each message, once `ready` says that
  // it is available.
  template <class Visit>
  void each(std::size_t bytes, std::size_t count, sem_t& ready, sem_t& done, Visit visit) {
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t at = 0; at < bytes; at += kBlock) {
        wait(ready);
        visit(ring_->blocks[next_++ % kBlocks].data(), at, std::min(kBlock, bytes - at));
        ::sem_post(&done);
      }
  }
  std::vector<char>& buffer(std::size_t bytes) {
    if (buffer_.size() < bytes) buffer_.assign(bytes, 'x');
    return buffer_;
  }

 private:
  Ring* ring_ = nullptr;
  std::size_t next_ = 0;  // block index
  std::vector<char> buffer_;
};

SharedMemoryPeer::SharedMemoryPeer() : child_({own_path(), "--child", kSharedMemory}) {
  const int fd = ::memfd_create("troupe-bench", 0);
  if (fd < 0 || ::ftruncate(fd, sizeof(Ring)) != 0) fail_memory("memfd_create");
  child_.write_line(fmt::format("/proc/{}/fd/{}", ::getpid(), fd));
  child_.read_line();
  ring_ = std::make_unique<Mapping>(fd);
  if (::sem_init(&(*ring_)->free, 1, kBlocks) != 0 || ::sem_init(&(*ring_)->full, 1, 0) != 0 ||
      ::sem_init(&(*ring_)->received, 1, 0) != 0)
    fail_memory("sem_init");
}
SharedMemoryPeer::~SharedMemoryPeer() = default;

void SharedMemoryPeer::send(std::size_t bytes, int count) {
  Mapping& ring = *ring_;
  const std::vector<char>& from = ring.buffer(bytes);
  child_.write_line(fmt::format("{} {}", bytes, count));
  ring.each(bytes, static_cast<std::size_t>(count), ring->free, ring->full,
            [&](char* block, std::size_t at, std::size_t size) { std::memcpy(block, from.data() + at, size); });
  wait(ring->received);
}

void SharedMemoryPeer::serve() {
  std::string path;
  if (!(std::cin >> path)) return;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail_memory("open");
  Mapping ring(fd);
  say("mapped");
  for (std::size_t bytes = 0, count = 0; std::cin >> bytes >> count;) {
    std::vector<char>& to = ring.buffer(bytes);
    ring.each(bytes, count, ring->full, ring->free,
              [&](const char* block, std::size_t at, std::size_t size) { std::memcpy(to.data() + at, block, size); });
    ::sem_post(&ring->received);
  }
}

}  // namespace troupe::bench
