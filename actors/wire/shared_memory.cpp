#include "troupe/actors/wire/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <troupe/messages/error.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe::wire {
namespace {

constexpr std::size_t kRing = std::size_t{1} << 20;  // bytes per direction: fits a core's second-level cache
constexpr std::size_t kStep = kRing / 16;            // bytes copied before the peer is notified
constexpr std::size_t kEnough = kRing / 4;           // free bytes that wake a writer
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kLine = 128;  // bytes; avoids false sharing between cores

// Written by one side, read by the other. Positions count bytes from the start.
struct Ring {
  alignas(kLine) std::atomic<std::uint64_t> written;
  alignas(kLine) std::atomic<std::uint64_t> taken;
  alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;  // the socket must wake it
  alignas(kLine) std::atomic<std::uint32_t> writer_sleeps;
  alignas(4096) std::array<char, kRing> bytes;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

std::string path_of(int process, int file) { return fmt::format("/proc/{}/fd/{}", process, file); }

}  // namespace

struct SharedMemory::Area {
  std::uint64_t key;  // must match that of the place
  Ring to_creator, from_creator;
};

SharedMemory::SharedMemory(Fd file, bool creator) : file_(std::move(file)), creator_(creator) {
  void* const at = ::mmap(nullptr, sizeof(Area), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (at == MAP_FAILED) fail(Code::unavailable, "shared memory: {}", errno_text(errno));
  area_ = static_cast<Area*>(at);
}
SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)), creator_(other.creator_), area_(std::exchange(other.area_, nullptr)) {}
SharedMemory::~SharedMemory() {
  if (area_) ::munmap(area_, sizeof(Area));
}

SharedMemory SharedMemory::create() {
  Fd file(::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), sizeof(Area)) != 0 || ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0)
    fail(Code::unavailable, "shared memory: {}", errno_text(errno));
  SharedMemory out(std::move(file), true);
  out.area_->key = random_id();
  return out;
}

std::string SharedMemory::place() const { return fmt::format("{} {} {}", ::getpid(), file_.get(), area_->key); }

SharedMemory SharedMemory::open(const std::string& place) {
  int process = 0, number = 0;
  unsigned long long key = 0;
  if (std::sscanf(place.c_str(), "%d %d %llu", &process, &number, &key) != 3)
    fail(Code::data_loss, "malformed address of shared memory");
  const std::string path = path_of(process, number);
  // Opens memory files only: opening a device could have side effects.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail(Code::unavailable, "shared memory: {}", errno_text(errno));
  if (!S_ISREG(status.st_mode) || status.st_nlink != 0 || status.st_size != sizeof(Area))
    fail(Code::data_loss, "not shared memory of this release");
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail(Code::unavailable, "shared memory: {}", errno_text(errno));
  if (const int seals = ::fcntl(file.get(), F_GET_SEALS); seals < 0 || (seals & kSeals) != kSeals)
    fail(Code::data_loss, "the shared memory is not sealed against shrinking");
  SharedMemory out(std::move(file), false);
  if (out.area_->key != key) fail(Code::data_loss, "the shared memory has another key");
  out.file_.reset();
  return out;
}

class SharedMemoryChannel final : public Channel {
 public:
  SharedMemoryChannel(Fd socket, SharedMemory memory)
      : Channel(std::move(socket)),
        memory_(std::move(memory)),
        in_(memory_.creator_ ? memory_.area_->to_creator : memory_.area_->from_creator),
        out_(memory_.creator_ ? memory_.area_->from_creator : memory_.area_->to_creator) {
    memory_.file_.reset();
  }

  SetUp set_up() override { return SetUp::done; }

  ssize_t write(std::span<iovec> pieces) override {
    const std::uint64_t before = written_.load(std::memory_order_relaxed);
    std::uint64_t written = before;
    std::size_t room = 0;
    for (const iovec& piece : pieces)
      for (std::size_t at = 0; at < piece.iov_len;) {
        if (room == 0) {
          const std::uint64_t used = written - out_.taken.load();
          if (used >= kRing) {  // full, or an invalid position
            if (written > before) return shown(before, written);
            errno = used == kRing ? EAGAIN : EPROTO;
            return -1;
          }
          room = kRing - used;
        }
        const std::size_t place = written % kRing;
        const std::size_t n = std::min({piece.iov_len - at, room, kRing - place, kStep});
        std::memcpy(out_.bytes.data() + place, static_cast<const char*>(piece.iov_base) + at, n);
        written += n;
        at += n;
        room -= n;
        if (n == kStep) show_written(written);
      }
    return shown(before, written);
  }
  bool flushed() override { return true; }

  ssize_t read(std::span<iovec> places) override {
    std::size_t there = waiting_bytes();
    if (there == 0) {
      const ssize_t end = drain_socket();
      there = waiting_bytes();  // written before the end
      if (there == 0) return end;
    }
    const std::uint64_t before = taken_;
    for (const iovec& piece : places)
      for (std::size_t at = 0; at < piece.iov_len;) {
        if (there == 0) there = waiting_bytes();
        if (there == 0) {  // later bytes belong after this piece, not into the next one
          show_taken();
          return static_cast<ssize_t>(taken_ - before);
        }
        if (there > kRing) fail(Code::data_loss, "the peer wrote an invalid position into shared memory");
        const std::size_t place = taken_ % kRing;
        const std::size_t n = std::min({piece.iov_len - at, there, kRing - place, kStep});
        std::memcpy(static_cast<char*>(piece.iov_base) + at, in_.bytes.data() + place, n);
        taken_ += n;
        at += n;
        there -= n;
        if (n == kStep) show_taken();
      }
    show_taken();
    return static_cast<ssize_t>(taken_ - before);
  }
  bool buffered() const override { return waiting_bytes() > 0; }

  bool tells_by_memory() const override { return true; }
  bool writable() const override {
    return written_.load(std::memory_order_relaxed) - out_.taken.load() <= kRing - kEnough;
  }
  bool sleep(bool to_write) override {
    in_.reader_sleeps.store(1);
    if (to_write) out_.writer_sleeps.store(1);
    return !buffered() && !(to_write && writable());
  }

 private:
  // May exceed the ring if the peer writes an invalid position.
  std::size_t waiting_bytes() const { return static_cast<std::size_t>(in_.written.load() - taken_); }

  ssize_t shown(std::uint64_t before, std::uint64_t written) {
    show_written(written);
    count_sent(static_cast<ssize_t>(written - before));
    return static_cast<ssize_t>(written - before);
  }
  // Stores, then loads, the reverse of sleep(), so that at least one side sees the other.
  void show_written(std::uint64_t written) {
    written_.store(written, std::memory_order_relaxed);
    out_.written.store(written);
    if (out_.reader_sleeps.load() != 0 && out_.reader_sleeps.exchange(0) != 0) wake_peer();
  }
  void show_taken() {
    in_.taken.store(taken_);
    if (in_.writer_sleeps.load() == 0 || waiting_bytes() > kRing - kEnough) return;
    if (in_.writer_sleeps.exchange(0) != 0) wake_peer();
  }
  // A full socket needs no byte: it already holds bytes that wake the peer.
  void wake_peer() { (void)::send(socket().get(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); }
  // Discards wake-up bytes; returns like read() on a socket without data.
  ssize_t drain_socket() {
    std::array<char, 256> bytes;
    for (;;) {
      const ssize_t n = ::recv(socket().get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n <= 0) return n;
    }
  }

  SharedMemory memory_;
  Ring& in_;
  Ring& out_;
  // Our own positions, kept privately: shared memory may contain anything.
  std::uint64_t taken_ = 0;                // in in_; owned by the reader
  std::atomic<std::uint64_t> written_{0};  // in out_; stored by writers
};

std::unique_ptr<Channel> shared_memory_channel(Fd socket, SharedMemory memory) {
  return std::make_unique<SharedMemoryChannel>(std::move(socket), std::move(memory));
}

}  // namespace troupe::wire
