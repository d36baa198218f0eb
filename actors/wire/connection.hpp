// One established socket between two tasks: sends and receives frames, keeps credits and counters. Knows
// nothing of handshakes, names or epoll: those are the Wire's.
//
// Threads: send(), hold_credit(), taken() and counters() may be called by any thread; everything else by the wire
// thread only. send() copies no payload and waits for no socket. A frame that is not bulk is written by the
// sending thread itself when nobody else is writing; whatever is left wakes the wire thread.
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

// Lock-free: may be read at any time by any thread.
struct LinkCounters {
  std::atomic<std::uint64_t> bytes_sent{0};  // on the socket, with headers
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> frames_queued{0};  // ever; the depth of the queue is frames_queued - frames_sent
  std::atomic<std::uint64_t> frames_sent{0};
  std::atomic<std::uint64_t> frames_received{0};
  std::atomic<std::uint64_t> bytes_waiting{0};  // of frames in the queue, not yet on their way
  std::atomic<std::uint64_t> credit{0};         // bulk bytes that may be sent now
  std::atomic<bool> stalled{false};             // bulk waits for credit
  std::atomic<bool> control_waits{false};       // even control frames cannot leave: the socket is full
  std::atomic<bool> shared_memory{false};       // frames pass through memory of this host
  std::atomic<bool> suspect{false};             // the peer has been silent for a while
  std::atomic<std::int64_t> last_heard{0};      // when a chunk last ended; nanoseconds of the monotonic clock
  std::atomic<std::uint64_t> peer_progress{0};  // of its last heartbeat
  std::atomic<std::int64_t> progress_at{0};     // when that last changed, or the link opened; likewise
};

struct ConnectionOptions {
  Limits limits;
  std::size_t chunk_bytes = kMaxChunk;    // at most kMaxChunk
  std::uint64_t window = kDefaultWindow;  // bulk bytes the peer may have in flight; at least 2 x kMaxChunk
  Arrivals arrivals;                      // memory for what comes
};

// Goes on with what the two ends prove to each other, and reads not a byte more. Throws what
// Authentication::received() throws, unavailable for a peer that is gone.
Channel::SetUp authenticate(Channel& channel, Authentication& authentication);

class Connection {
 public:
  // `wake` makes the wire thread call flush() soon; called by any thread.
  Connection(std::unique_ptr<Channel> channel, const ConnectionOptions& options, std::function<void()> wake);

  // For what comes before frames, or in their place: set-up, proofs, a question. Of the wire's thread, and only until
  // the first frame is sent or received.
  Channel& channel() { return *channel_; }

  // Code::ok: queued or sent. Else the frame cannot be encoded, or the connection is closed (with its
  // reason).
  Error send(const Frame& frame);
  // The same in two halves: queue() any number of frames, then push(). A frame that is bulk wakes the wire thread at
  // once.
  Error queue(const Frame& frame);
  void push();
  // While held, received bulk earns no new credit: the peer stops after `window` bytes at most.
  void hold_credit(bool hold);
  // What was deferred has been taken.
  void taken(std::uint64_t bytes);
  const LinkCounters& counters() const { return counters_; }
  LinkCounters& counters() { return counters_; }

  enum class Written { all, blocked, more, broken };
  // Writes what can be written, but about `budget` bytes at most. blocked: call again when the socket is
  // writable.
  Written flush(std::size_t budget);

  enum class Received { some, nothing, end, stopped };
  // Reads about `budget` bytes at most. Throws Error: a bad frame, or unavailable for a broken socket.
  Received receive(std::size_t budget, const ChunkReader::Sink& sink);
  // Bytes that the channel has taken so far.
  std::uint64_t sent() const { return channel_->sent(); }
  // There may be more to receive, of which the socket says nothing.
  bool buffered() const { return channel_->buffered(); }
  // All that follows, in both directions, passes through memory that both sides have; nothing may wait to be sent. May
  // be called in the sink, of the last frame that comes through the socket.
  void share(SharedMemory memory);
  // The channel is to be looked at (Channel::tells_by_memory).
  bool shares() const { return channel_->tells_by_memory(); }
  bool writable() const { return channel_->writable(); }
  bool sleep(bool to_write) { return channel_->sleep(to_write); }

  // Reads and forgets. `end`: the peer is gone.
  Received discard();

  // Lets frames of all kinds in and grants the first credit.
  void handshake_done();
  // To be called in the sink: no frame after this one is parsed.
  void stop_receiving() { reader_.stop(); }
  // The peer has granted bulk bytes. Throws failed_precondition for more than makes sense.
  void add_credit(std::uint64_t bytes);
  // Grants what has been received since, and what has been taken, unless held.
  void grant_credit();
  // So many of the bulk bytes that have come earn no credit before they are taken().
  void defer(std::uint64_t bytes) { owed_ -= static_cast<std::int64_t>(bytes); }

  // No frame is accepted any more; send() answers `reason`. Goodbye goes last; with `drop`, what waits is
  // forgotten.
  void finish(const Error& reason, const Goodbye& goodbye, bool drop);
  // The Goodbye has been written.
  bool finished();
  // Nothing more will be written.
  void shut_write();
  void close(const Error& reason);
  int fd() const { return channel_->socket().get(); }
  // How the connect() of this socket has ended: 0 or an errno.
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

  std::mutex write_mutex_;            // held while the channel is written: senders only try to take it
  std::unique_ptr<Channel> channel_;  // changed and closed by the wire thread under write_mutex_
  std::vector<OutgoingFrame> taken_;  // of the inbox; kept for its memory
  SendQueue queue_;
  bool blocked_ = false;
  bool broken_ = false;

  ChunkReader reader_;
  std::vector<char> staging_;
  std::int64_t owed_ = 0;                     // bulk bytes received, not deferred and not yet granted again
  std::atomic<std::uint64_t> undeferred_{0};  // taken, and not yet in owed_
  std::atomic<bool> hold_{false};
};

}  // namespace troupe::wire
