#include "troupe/actors/wire/send_queue.hpp"

#include <algorithm>

namespace troupe::wire {
namespace {

std::span<const char> part_of(const EncodedFrame& frame, std::size_t part) {
  if (part == 0) return frame.head;
  const Tensor& tensor = frame.payloads[part - 1];
  return {reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes()};
}

std::array<char, kChunkHeaderBytes> header_of(FrameClass frame_class, std::uint8_t flags, std::size_t size) {
  const auto length = static_cast<std::uint32_t>(size);
  std::array<char, kChunkHeaderBytes> header{static_cast<char>(frame_class), static_cast<char>(flags)};
  for (std::size_t i = 0; i < 4; ++i) header[4 + i] = static_cast<char>(length >> (8 * i));
  return header;
}

}  // namespace

void SendQueue::push(OutgoingFrame frame) {
  if (finishing_) return;
  if (frame.frame_class == FrameClass::small && frame.order != 0 && bulk_orders_.contains(frame.order))
    frame.frame_class = FrameClass::bulk;
  if (frame.frame_class == FrameClass::bulk && frame.order != 0) ++bulk_orders_[frame.order];
  ++frames_;
  bytes_ += frame.frame.size();
  queues_[static_cast<std::size_t>(frame.frame_class)].push_back(Waiting{std::move(frame)});
}

void SendQueue::finish(EncodedFrame goodbye) {
  if (finishing_) return;
  finishing_ = true;
  ++frames_;
  bytes_ += goodbye.size();
  final_ = std::move(goodbye);
}

void SendQueue::drop_waiting() {
  for (std::size_t i = 0; i < kFrameClasses; ++i) {
    std::list<Waiting> half_cut;
    if (!queues_[i].empty() && queues_[i].front().taken > 0)
      half_cut.splice(half_cut.end(), queues_[i], queues_[i].begin());
    queues_[i].clear();
    // The frame of finish() follows in class control, so a partly cut control frame has to be completed. In the other
    // classes the rest is not sent; the frame only lives until its committed pieces are written.
    (i == 0 ? queues_[i] : cut_).splice((i == 0 ? queues_[i] : cut_).end(), half_cut);
  }
  bulk_orders_.clear();
  frames_ = queues_[0].size() + (final_ ? 1 : 0);
  bytes_ = final_ ? final_->size() : 0;
  for (const Waiting& waiting : queues_[0]) bytes_ += waiting.out.frame.size() - waiting.taken;
}

std::size_t SendQueue::next_chunk_size(const Waiting& waiting) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(waiting.out.frame.size() - waiting.taken, chunk_bytes_));
}

std::optional<FrameClass> SendQueue::next_class() const {
  if (!queues_[0].empty()) return FrameClass::control;
  if (!queues_[1].empty()) return FrameClass::small;
  if (!queues_[2].empty() && next_chunk_size(queues_[2].front()) <= credit_) return FrameClass::bulk;
  return std::nullopt;
}

void SendQueue::forget_order(const OutgoingFrame& out) {
  if (out.frame_class != FrameClass::bulk || out.order == 0) return;
  if (const auto it = bulk_orders_.find(out.order); it != bulk_orders_.end() && --it->second == 0)
    bulk_orders_.erase(it);
}

void SendQueue::commit_chunk(FrameClass frame_class) {
  auto& queue = queues_[static_cast<std::size_t>(frame_class)];
  Waiting& frame = queue.front();
  const std::size_t size = next_chunk_size(frame);
  const bool last = frame.taken + size == frame.out.frame.size();
  const auto flags = static_cast<std::uint8_t>((frame.taken == 0 ? kFirstChunk : 0) | (last ? kLastChunk : 0));
  committed_.push_back(Piece{header_of(frame_class, flags, size), nullptr, kChunkHeaderBytes, false});
  for (std::size_t left = size; left > 0;) {
    const std::span<const char> part = part_of(frame.out.frame, frame.part).subspan(frame.offset);
    const std::size_t n = std::min(left, part.size());
    if (n > 0) committed_.push_back(Piece{{}, part.data(), n, false});
    left -= n;
    frame.offset += n;
    if (n == part.size()) {
      ++frame.part;
      frame.offset = 0;
    }
  }
  frame.taken += size;
  committed_bytes_ += size + kChunkHeaderBytes;
  bytes_ -= size;
  if (frame_class == FrameClass::bulk) credit_ -= size;
  if (!last) return;
  committed_.back().ends_frame = true;
  forget_order(frame.out);
  --frames_;
  cut_.splice(cut_.end(), queue, queue.begin());
}

std::span<iovec> SendQueue::gather(std::span<iovec> iov) {
  while (committed_bytes_ < chunk_bytes_ && committed_.size() < iov.size()) {
    const auto next = next_class();
    if (!next) break;
    commit_chunk(*next);
  }
  if (final_ && committed_.empty() && queues_[2].empty()) {
    queues_[0].push_back(Waiting{{std::move(*final_), FrameClass::control, 0}});
    final_.reset();
    final_taken_ = true;
    commit_chunk(FrameClass::control);
  }
  std::size_t count = 0;
  for (const Piece& piece : committed_) {
    if (count == iov.size()) break;
    const std::size_t skip = count == 0 ? front_written_ : 0;
    const char* data = piece.data ? static_cast<const char*>(piece.data) : piece.header.data();
    iov[count++] = {const_cast<char*>(data) + skip, piece.size - skip};
  }
  return iov.first(count);
}

void SendQueue::written(std::size_t bytes) {
  committed_bytes_ -= bytes;
  while (bytes > 0) {
    const Piece& piece = committed_.front();
    const std::size_t n = std::min(bytes, piece.size - front_written_);
    bytes -= n;
    front_written_ += n;
    if (front_written_ < piece.size) return;
    if (piece.ends_frame) {
      cut_.pop_front();
      ++frames_sent_;
    }
    committed_.pop_front();
    front_written_ = 0;
  }
}

}  // namespace troupe::wire
