// The send queue of one connection: frames by priority (chunk.hpp), cut into chunks, limited by credit. A plain class:
// the caller writes the pieces from gather() and reports them with written(). Not thread-safe.
#pragma once

#include <sys/uio.h>

#include <array>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>

#include <troupe/actors/wire/chunk.hpp>

namespace troupe::wire {

struct OutgoingFrame {
  EncodedFrame frame;
  FrameClass frame_class = FrameClass::control;
  std::uint64_t order = 0;  // order_key()
};

class SendQueue {
 public:
  explicit SendQueue(std::size_t chunk_bytes = kMaxChunk) : chunk_bytes_(chunk_bytes) {}

  void push(OutgoingFrame frame);
  // Queues the last frame, sent after all others. Later frames are dropped.
  void finish(EncodedFrame goodbye);
  // Discards queued frames. Keeps chunks already returned by gather(): the receiver counts on them.
  void drop_waiting();

  // Adds credit from the receiver, which allows more bulk bytes.
  void add_credit(std::uint64_t bytes) { credit_ += bytes; }
  std::uint64_t credit() const { return credit_; }
  // True if only bulk is queued, and it lacks credit.
  bool stalled() const { return committed_.empty() && !next_class() && !queues_[2].empty(); }

  // Returns the next bytes, in at most iov.size() pieces; empty if nothing can be sent now. Chooses chunks about one
  // chunk ahead, so that frames pushed meanwhile can overtake.
  std::span<iovec> gather(std::span<iovec> iov);
  void written(std::size_t bytes);

  // True if nothing is queued or partly sent.
  bool empty() const { return frames_ == 0 && committed_.empty(); }
  // True once the frame of finish() has been written.
  bool finished() const { return final_taken_ && empty(); }
  std::uint64_t frames() const { return frames_; }  // not yet completely cut into chunks
  std::uint64_t bytes() const { return bytes_; }    // of those frames
  bool control_waits() const { return !queues_[0].empty(); }
  std::uint64_t frames_sent() const { return frames_sent_; }

 private:
  struct Waiting {
    OutgoingFrame out;
    std::size_t part = 0;     // 0: head, i: payload i - 1
    std::size_t offset = 0;   // in that part
    std::uint64_t taken = 0;  // bytes cut so far
  };
  // Bytes of a chosen chunk: its header (stored here) or a part of its content.
  struct Piece {
    std::array<char, kChunkHeaderBytes> header{};
    const void* data = nullptr;  // null: `header`
    std::size_t size = 0;
    bool ends_frame = false;
  };

  std::optional<FrameClass> next_class() const;
  std::size_t next_chunk_size(const Waiting& waiting) const;
  void commit_chunk(FrameClass frame_class);
  void forget_order(const OutgoingFrame& out);

  std::size_t chunk_bytes_;
  std::array<std::list<Waiting>, kFrameClasses> queues_;
  std::unordered_map<std::uint64_t, int> bulk_orders_;  // queued bulk frames by order key
  std::optional<EncodedFrame> final_;
  bool finishing_ = false;
  bool final_taken_ = false;
  std::deque<Piece> committed_;
  std::size_t committed_bytes_ = 0;
  std::size_t front_written_ = 0;  // in the first piece
  std::list<Waiting> cut_;         // completely cut frames whose bytes are not all written
  std::uint64_t credit_ = 0;
  std::uint64_t frames_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t frames_sent_ = 0;
};

}  // namespace troupe::wire
