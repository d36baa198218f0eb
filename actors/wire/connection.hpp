// An established socket between two tasks: sends and receives frames, keeps credits and counters. The Wire handles
// handshakes, names and epoll.
//
// Threads: send(), hold_credit(), taken() and counters() are thread-safe; everything else is for the wire thread.
// send() copies no payload and never blocks on a socket. The sending thread writes non-bulk frames itself unless
// another thread is writing; otherwise it wakes the wire thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include <troupe/actors/wire/authentication.hpp>
#include <troupe/actors/wire/channel.hpp>
#include <troupe/actors/wire/chunk_reader.hpp>
#include <troupe/actors/wire/defaults.hpp>
#include <troupe/actors/wire/send_queue.hpp>
#include <troupe/actors/wire/shared_memory.hpp>

namespace troupe::wire {

using Clock = std::chrono::steady_clock;

// Lock-free: any thread may read them at any time.
struct LinkCounters {
  std::atomic<std::uint64_t> bytes_sent{0};  // on the socket, headers included
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> frames_queued{0};  // in total; queue depth is frames_queued - frames_sent
  std::atomic<std::uint64_t> frames_sent{0};
  std::atomic<std::uint64_t> frames_received{0};
  std::atomic<std::uint64_t> bytes_waiting{0};  // of queued frames whose sending has not begun
  std::atomic<std::uint64_t> credit{0};         // bulk bytes that may be sent now
  std::atomic<bool> stalled{false};             // bulk is waiting for credit
  std::atomic<bool> control_waits{false};       // even control frames are blocked: the socket is full
  std::atomic<bool> shared_memory{false};       // frames pass through shared memory of this host
  std::atomic<bool> suspect{false};             // the peer has been silent for a while
  std::atomic<std::int64_t> last_heard{0};      // when a chunk last ended; nanoseconds on the monotonic clock
  std::atomic<std::uint64_t> peer_progress{0};  // from its last heartbeat
  std::atomic<std::int64_t> progress_at{0};     // when that last changed, or the link opened; same clock
};

struct ConnectionOptions {
  Limits limits;
  std::size_t chunk_bytes = kMaxChunk;    // at most kMaxChunk
  std::uint64_t window = kDefaultWindow;  // bulk bytes the peer may have in flight; at least 2 x kMaxChunk
  Arrivals arrivals;                      // memory of incoming tensors
};

// Advances the mutual authentication without reading past it. Throws errors of Authentication::received(), and
// unavailable if the peer is gone.
Channel::SetUp authenticate(Channel& channel, Authentication& authentication);

class Connection {
 public:
  // `wake` makes the wire thread call flush() soon; it is called on any thread.
  Connection(std::unique_ptr<Channel> channel, const ConnectionOptions& options, std::function<void()> wake);

  // For exchanges before or instead of frames: set-up, proofs, a question. Wire thread only, until the first frame is
  // sent or received.
  Channel& channel() { return *channel_; }

  // Returns Code::ok if the frame is queued or sent. Otherwise it cannot be encoded, or the connection is closed (with
  // its reason).
  Error send(const Frame& frame);
  // The same in two steps: queue() any number of frames, then push(). A bulk frame wakes the wire thread at once.
  Error queue(const Frame& frame);
  void push();
  // While held, received bulk data earns no new credit: the peer stops after at most `window` bytes.
  void hold_credit(bool hold);
  // Reports that deferred bytes have been consumed.
  void taken(std::uint64_t bytes);
  const LinkCounters& counters() const { return counters_; }
  LinkCounters& counters() { return counters_; }

  enum class Written { all, blocked, more, broken };
  // Writes about `budget` bytes at most. blocked: call again when the socket is writable.
  Written flush(std::size_t budget);

  enum class Received { some, nothing, end, stopped };
  // Reads about `budget` bytes at most. Throws Error for an invalid frame, unavailable for a broken socket.
  Received receive(std::size_t budget, const ChunkReader::Sink& sink);
  // Bytes accepted by the channel so far.
  std::uint64_t sent() const { return channel_->sent(); }
  // True if there may be more to receive that the socket does not report.
  bool buffered() const { return channel_->buffered(); }
  // Switches both directions to shared memory from now on; nothing may be queued. May be called in the sink for the
  // last frame that arrives through the socket.
  void share(SharedMemory memory);
  // True if the channel needs polling (Channel::tells_by_memory).
  bool shares() const { return channel_->tells_by_memory(); }
  bool writable() const { return channel_->writable(); }
  bool sleep(bool to_write) { return channel_->sleep(to_write); }

  // Reads and discards. `end`: the peer is gone.
  Received discard();

  // Admits frames of all kinds and grants the first credit.
  void handshake_done();
  // Call in the sink: no frame after this one is parsed.
  void stop_receiving() { reader_.stop(); }
  // Adds credit granted by the peer. Throws failed_precondition for an implausible amount.
  void add_credit(std::uint64_t bytes);
  // Grants credit for bytes received or consumed since the last grant, unless held.
  void grant_credit();
  // `bytes` of the received bulk data earn no credit until reported to taken().
  void defer(std::uint64_t bytes) { owed_ -= static_cast<std::int64_t>(bytes); }

  // Accepts no more frames; send() then returns `reason`. The Goodbye goes last; with `drop`, discards the queue.
  void finish(const Error& reason, const Goodbye& goodbye, bool drop);
  // True once the Goodbye has been written.
  bool finished();
  // Closes the write side: nothing more will be written.
  void shut_write();
  void close(const Error& reason);
  int fd() const { return channel_->socket().get(); }
  // The result of this socket's connect(): 0 or an errno.
  int connect_error() const { return connect_result(channel_->socket()); }

 private:
  Error put(const Frame& frame, bool& bulk);
  bool write_inline();
  Written write_some(std::size_t budget);  // needs write_mutex_
  void take_inbox();                       // needs write_mutex_
  void publish();                          // needs write_mutex_
  void refuse_frames(const Error& reason);

  const ConnectionOptions options_;
  const std::function<void()> wake_;
  LinkCounters counters_;

  std::mutex inbox_mutex_;  // taken after write_mutex_, never before it
  std::vector<OutgoingFrame> inbox_;
  Error closed_;

  std::mutex write_mutex_;            // held while writing to the channel: senders only try to lock it
  std::unique_ptr<Channel> channel_;  // changed and closed by the wire thread under write_mutex_
  std::vector<OutgoingFrame> taken_;  // from the inbox; kept for its capacity
  SendQueue queue_;
  bool blocked_ = false;
  bool broken_ = false;

  ChunkReader reader_;
  std::vector<char> staging_;
  std::int64_t owed_ = 0;                     // bulk bytes received, not deferred and not yet granted again
  std::atomic<std::uint64_t> undeferred_{0};  // bytes consumed, not yet in owed_
  std::atomic<bool> hold_{false};
};

}  // namespace troupe::wire
