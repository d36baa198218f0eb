#include "troupe/actors/wire/chunk_reader.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::wire {

ChunkReader::ChunkReader(const Limits& limits, Arrivals arrivals) : limits_(limits), arrivals_(std::move(arrivals)) {}

void ChunkReader::consume(std::span<const char> bytes, const Sink& sink) {
  forgets_rest_ = false;
  while (!bytes.empty() && !stopped_ && !forgets_rest_) {
    if (chunk_left_ == 0) {
      const std::size_t n = std::min(bytes.size(), kChunkHeaderBytes - chunk_header_size_);
      std::memcpy(chunk_header_.data() + chunk_header_size_, bytes.data(), n);
      chunk_header_size_ += n;
      bytes = bytes.subspan(n);
      if (chunk_header_size_ == kChunkHeaderBytes) begin_chunk();
    } else {
      const std::size_t n = feed(*current_, bytes.first(std::min(bytes.size(), chunk_left_)));
      bytes = bytes.subspan(n);
      chunk_left_ -= n;
      if (chunk_left_ == 0) end_chunk(sink);
    }
  }
}

std::span<std::byte> ChunkReader::direct() {
  if (chunk_left_ == 0 || current_->part != Part::payload || complete(*current_)) return {};
  const std::span<std::byte> rest = next_destination(*current_);
  return rest.first(std::min(rest.size(), chunk_left_));
}

void ChunkReader::received_direct(std::size_t bytes, const Sink& sink) {
  advance(*current_, bytes);
  chunk_left_ -= bytes;
  if (chunk_left_ == 0) end_chunk(sink);
}

void ChunkReader::begin_chunk() {
  chunk_header_size_ = 0;
  const auto frame_class = static_cast<unsigned char>(chunk_header_[0]);
  const auto flags = static_cast<unsigned char>(chunk_header_[1]);
  const auto length = read_little_endian<std::uint32_t>(chunk_header_.data() + 4);
  if (frame_class >= kFrameClasses || flags > (kFirstChunk | kLastChunk) || chunk_header_[2] != 0 ||
      chunk_header_[3] != 0 || length == 0 || length > kMaxChunk)
    fail(greeting_ ? Code::unauthenticated : Code::data_loss, "not a chunk of a troupe connection");
  current_class_ = static_cast<FrameClass>(frame_class);
  current_ = &streams_[frame_class];
  const bool first = (flags & kFirstChunk) != 0;
  if (first == current_->active)
    fail(Code::data_loss, "{}",
         first ? "a frame begins in the middle of another" : "a chunk continues a frame that has not begun");
  if (current_class_ == FrameClass::bulk) {
    if (length > bulk_allowed_)
      fail(Code::resource_exhausted, "the peer sent {} bytes of bulk data with a credit of {}", length, bulk_allowed_);
    bulk_allowed_ -= length;
    bulk_received_ += length;
  }
  current_->active = true;
  last_chunk_ = (flags & kLastChunk) != 0;
  chunk_left_ = length;
}

void ChunkReader::end_chunk(const Sink& sink) {
  chunk_ended_ = true;
  if (!last_chunk_) return;
  Stream& stream = *current_;
  if (!complete(stream)) fail(Code::data_loss, "the last chunk of a frame does not complete it");
  Frame frame = stream.decoder->finish();
  if (!may_travel_as(current_class_, frame, stream.header.payload_bytes))
    fail(Code::data_loss, "a {} came in chunks of the wrong class", kind_name(frame));
  stream.decoder.reset();
  stream.announced.reset();
  stream.active = false;
  stream.part = Part::header;
  stream.destination = stream.offset = 0;
  sink(std::move(frame));
}

// Consumes at least one of `bytes`, which must not be empty.
std::size_t ChunkReader::feed(Stream& stream, std::span<const char> bytes) {
  std::size_t taken = 0;
  switch (stream.part) {
    case Part::header:
      taken = fill_buffer(stream, kFrameHeaderBytes, bytes);
      if (stream.buffer.size() == kFrameHeaderBytes) begin_body(stream);
      break;
    case Part::body:
      taken = fill_buffer(stream, stream.header.body_bytes, bytes);
      if (stream.buffer.size() == stream.header.body_bytes) begin_payload(stream);
      break;
    case Part::payload: {
      if (complete(stream)) fail(Code::data_loss, "a chunk continues past the end of its frame");
      const std::span<std::byte> destination = next_destination(stream);
      taken = std::min(bytes.size(), destination.size());
      std::memcpy(destination.data(), bytes.data(), taken);
      advance(stream, taken);
      break;
    }
  }
  return taken;
}

std::size_t ChunkReader::fill_buffer(Stream& stream, std::size_t wanted, std::span<const char> bytes) {
  const std::size_t n = std::min(bytes.size(), wanted - stream.buffer.size());
  stream.buffer.append(bytes.data(), n);
  return n;
}

void ChunkReader::begin_body(Stream& stream) {
  stream.header = parse_frame_header(stream.buffer, limits_);
  if (greeting_) {
    const bool greets = stream.header.kind == kind_of<Hello> || stream.header.kind == kind_of<SharedMemoryAnswer> ||
                        stream.header.kind == kind_of<Goodbye>;
    if (!greets || stream.header.tensors != 0 || stream.header.payload_bytes != 0 ||
        stream.header.body_bytes > kMaxGreeting)
      fail(Code::unauthenticated, "the first frame of a connection must be a Hello of at most {} bytes", kMaxGreeting);
  }
  // Check before allocating: only bulk has credits, which limit the bytes a peer may have in flight.
  if (stream.header.payload_bytes > kSmallPayload && current_class_ != FrameClass::bulk)
    fail(Code::data_loss, "tensors of {} bytes came in chunks of a class other than bulk", stream.header.payload_bytes);
  stream.buffer.clear();
  stream.part = Part::body;
  if (stream.header.body_bytes == 0) begin_payload(stream);
}

void ChunkReader::begin_payload(Stream& stream) {
  stream.announced.emplace(arrivals_.announced, stream.header.payload_bytes);
  stream.decoder.emplace(stream.header, stream.buffer, limits_, arrivals_.allocate);
  stream.buffer.clear();
  stream.part = Part::payload;
}

bool ChunkReader::complete(const Stream& stream) {
  return stream.part == Part::payload && stream.destination == stream.decoder->destinations().size();
}

std::span<std::byte> ChunkReader::next_destination(Stream& stream) {
  return stream.decoder->destinations()[stream.destination].subspan(stream.offset);
}

void ChunkReader::advance(Stream& stream, std::size_t bytes) {
  stream.offset += bytes;
  if (stream.offset < stream.decoder->destinations()[stream.destination].size()) return;
  ++stream.destination;
  stream.offset = 0;
}

}  // namespace troupe::wire
