#include "troupe/actors/wire/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace troupe::wire {
namespace {

constexpr std::size_t kStagingBytes = 64 << 10;
// After tensor data, a read takes in only the next headers and a few small frames: these bytes are copied.
constexpr std::size_t kStagingBehindTensor = 4 << 10;
constexpr std::size_t kPieces = 256;
constexpr std::size_t kInlineBudget = 64 << 10;
constexpr std::uint64_t kAbsurdCredit = 1ull << 50;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

Connection::Connection(std::unique_ptr<Channel> channel, const ConnectionOptions& options, std::function<void()> wake)
    : options_(options),
      wake_(std::move(wake)),
      channel_(std::move(channel)),
      queue_(options.chunk_bytes),
      reader_(options.limits, options.arrivals) {
  counters_.last_heard = now_ns();
}

Channel::SetUp authenticate(Channel& channel, Authentication& authentication) {
  using SetUp = Channel::SetUp;
  for (;;) {
    while (!authentication.to_send().empty()) {
      const auto n = write_some(channel, authentication.to_send());
      if (!n) return SetUp::wants_write;
      authentication.sent(*n);
    }
    if (!channel.flushed()) return SetUp::wants_write;
    if (authentication.done()) return SetUp::done;
    const auto n = read_some(channel, authentication.to_receive());
    if (!n) return SetUp::wants_read;
    if (*n == 0) throw authentication.left();
    authentication.received(*n);
  }
}

Error Connection::send(const Frame& frame) {
  bool bulk = false;
  if (const Error error = put(frame, bulk)) return error;
  if (bulk)
    wake_();
  else
    push();
  return {};
}

Error Connection::queue(const Frame& frame) {
  bool bulk = false;
  if (const Error error = put(frame, bulk)) return error;
  if (bulk) wake_();
  return {};
}

void Connection::push() {
  if (!write_inline()) wake_();
}

Error Connection::put(const Frame& frame, bool& bulk) {
  OutgoingFrame out;
  try {
    out.frame = encode(frame, options_.limits);
  } catch (...) {
    return current_error();
  }
  out.frame_class = classify(frame, out.frame.payload_bytes);
  out.order = order_key(frame);
  bulk = out.frame_class == FrameClass::bulk;
  const std::lock_guard lock(inbox_mutex_);
  if (closed_) return closed_;
  inbox_.push_back(std::move(out));
  counters_.frames_queued.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Returns true if the wire thread has nothing left to write now.
bool Connection::write_inline() {
  const std::unique_lock lock(write_mutex_, std::try_to_lock);
  if (!lock || blocked_) return false;
  return write_some(kInlineBudget) == Written::all;
}

Connection::Written Connection::flush(std::size_t budget) {
  const std::lock_guard lock(write_mutex_);
  return write_some(budget);
}

Connection::Written Connection::write_some(std::size_t budget) {
  if (broken_) return Written::broken;
  std::array<iovec, kPieces> iov;
  std::size_t total = 0;
  for (;;) {
    take_inbox();
    const std::span<iovec> pieces = queue_.gather(iov);
    publish();
    blocked_ = false;
    if (pieces.empty() && channel_->flushed()) return Written::all;
    if (total >= budget) return Written::more;
    const ssize_t n = channel_->write(pieces);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      blocked_ = true;
      return Written::blocked;
    }
    if (n < 0) {  // the reading side learns the reason, possibly from a Goodbye already received
      broken_ = true;
      return Written::broken;
    }
    total += static_cast<std::size_t>(n);
    queue_.written(static_cast<std::size_t>(n));
    counters_.bytes_sent.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
  }
}

void Connection::take_inbox() {
  {
    const std::lock_guard lock(inbox_mutex_);
    taken_.swap(inbox_);
  }
  for (OutgoingFrame& frame : taken_) queue_.push(std::move(frame));
  taken_.clear();
}

void Connection::publish() {
  counters_.frames_sent.store(queue_.frames_sent(), std::memory_order_relaxed);
  counters_.bytes_waiting.store(queue_.bytes(), std::memory_order_relaxed);
  counters_.credit.store(queue_.credit(), std::memory_order_relaxed);
  counters_.stalled.store(queue_.stalled(), std::memory_order_relaxed);
  counters_.control_waits.store(queue_.control_waits(), std::memory_order_relaxed);
}

Connection::Received Connection::receive(std::size_t budget, const ChunkReader::Sink& sink) {
  const ChunkReader::Sink counting = [&](Frame&& frame) {
    counters_.frames_received.fetch_add(1, std::memory_order_relaxed);
    sink(std::move(frame));
  };
  staging_.resize(kStagingBytes);  // allocated late: strangers must be cheap
  for (std::size_t total = 0; total < budget;) {
    const std::span<std::byte> direct = reader_.direct();
    const std::size_t behind = direct.empty() ? kStagingBytes : kStagingBehindTensor;
    std::array<iovec, 2> iov = {iovec{direct.data(), direct.size()}, iovec{staging_.data(), behind}};
    const ssize_t got = channel_->read(direct.empty() ? std::span(iov).last(1) : std::span(iov));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::nothing;
    if (got < 0) fail(Code::unavailable, "the connection broke: {}", errno_text(errno));
    if (got == 0) return Received::end;
    const auto n = static_cast<std::size_t>(got);
    total += n;
    counters_.bytes_received.fetch_add(n, std::memory_order_relaxed);
    const std::size_t into_tensor = std::min(n, direct.size());
    if (into_tensor > 0) reader_.received_direct(into_tensor, counting);
    if (n > into_tensor) reader_.consume({staging_.data(), n - into_tensor}, counting);
    // Per chunk, not per byte: nothing else, not even a heartbeat, passes within a chunk.
    if (reader_.take_chunk_ended()) counters_.last_heard.store(now_ns(), std::memory_order_relaxed);
    if (reader_.stopped()) return Received::stopped;
    grant_credit();
    if (n < direct.size() + behind) return Received::nothing;
  }
  return Received::some;
}

void Connection::share(SharedMemory memory) {
  const std::lock_guard lock(write_mutex_);
  channel_ = shared_memory_channel(channel_->release(), std::move(memory));
  reader_.forget_rest();
}

Connection::Received Connection::discard() {
  std::array<char, 4096> forgotten;
  const ssize_t got = ::recv(fd(), forgotten.data(), forgotten.size(), MSG_DONTWAIT);
  if (got > 0) return Received::some;
  const bool again = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return again ? Received::nothing : Received::end;
}

void Connection::handshake_done() {
  reader_.handshake_done();
  owed_ = static_cast<std::int64_t>(options_.window);
  grant_credit();
}

void Connection::add_credit(std::uint64_t bytes) {
  const std::lock_guard lock(write_mutex_);
  if (bytes > kAbsurdCredit || queue_.credit() > kAbsurdCredit)
    fail(Code::failed_precondition, "invalid credit of {} bytes from the peer", bytes);
  queue_.add_credit(bytes);
}

void Connection::grant_credit() {
  owed_ += static_cast<std::int64_t>(reader_.take_bulk_received() + undeferred_.exchange(0, std::memory_order_acquire));
  // Granted in large steps. A sender needs one chunk of credit to proceed, and at least 3/4 of the window is never
  // owed, so it cannot block forever.
  if (owed_ < static_cast<std::int64_t>(options_.window / 4) || hold_.load(std::memory_order_acquire)) return;
  const auto bytes = static_cast<std::uint64_t>(std::exchange(owed_, 0));
  reader_.allow_bulk(bytes);
  (void)send(Credit{bytes});  // fails only if the connection is ending
}

// Less than a quarter of the window may stay unreported: together with the owed bytes, half of it.
void Connection::taken(std::uint64_t bytes) {
  if (undeferred_.fetch_add(bytes, std::memory_order_release) + bytes >= options_.window / 4) wake_();
}

void Connection::hold_credit(bool hold) {
  hold_.store(hold, std::memory_order_release);
  if (!hold) wake_();
}

void Connection::refuse_frames(const Error& reason) {
  const std::lock_guard lock(inbox_mutex_);
  if (!closed_) closed_ = reason;
}

void Connection::finish(const Error& reason, const Goodbye& goodbye, bool drop) {
  refuse_frames(reason);
  const std::lock_guard lock(write_mutex_);
  take_inbox();
  if (drop) queue_.drop_waiting();
  queue_.finish(encode(goodbye, options_.limits));
}

bool Connection::finished() {
  const std::lock_guard lock(write_mutex_);
  return broken_ || (queue_.finished() && channel_->flushed());
}

void Connection::shut_write() { ::shutdown(fd(), SHUT_WR); }

void Connection::close(const Error& reason) {
  refuse_frames(reason);
  const std::lock_guard lock(write_mutex_);
  broken_ = true;
  channel_->close();
}

}  // namespace troupe::wire
