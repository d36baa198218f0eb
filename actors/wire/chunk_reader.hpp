// The receiving side of a connection: turns chunks (chunk.hpp) into frames. A plain class: the caller reads from the
// socket, into direct() if that is not empty, and passes all other bytes to consume().
//
// The bytes are untrusted: any violation throws Error, after which the reader must not be used.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <troupe/actors/wire/chunk.hpp>

namespace troupe::wire {

// Memory for incoming tensors.
struct Arrivals {
  TensorAllocator allocate = [](DType dtype, const Shape& shape) { return Tensor(dtype, shape); };
  // Bytes of frames announced and not yet received, over all connections that share this counter. A frame's bytes are
  // added before its memory is allocated.
  std::shared_ptr<std::atomic<std::uint64_t>> announced = std::make_shared<std::atomic<std::uint64_t>>(0);
};

class ChunkReader {
 public:
  using Sink = std::function<void(Frame&&)>;

  // Starts in the state before the handshake: accepts only a Hello, a SharedMemoryAnswer or a Goodbye, without tensors
  // and of at most kMaxGreeting bytes; anything else throws unauthenticated.
  explicit ChunkReader(const Limits& limits, Arrivals arrivals = {});
  void handshake_done() { greeting_ = false; }

  // The destination of the next bytes of the stream if they are elements of a tensor.
  std::span<std::byte> direct();
  // Reports that the first `bytes` of direct() have been filled.
  void received_direct(std::size_t bytes, const Sink& sink);
  void consume(std::span<const char> bytes, const Sink& sink);

  // May be called by the sink: stops parsing.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  // May be called by the sink: the remaining bytes are not part of the stream.
  void forget_rest() { forgets_rest_ = true; }

  // Allows the peer to send more bulk bytes; exceeding the allowance throws resource_exhausted.
  void allow_bulk(std::uint64_t bytes) { bulk_allowed_ += bytes; }
  // Returns the bulk bytes received since the last call.
  std::uint64_t take_bulk_received() { return std::exchange(bulk_received_, 0); }

  // Returns whether a chunk has ended since the last call.
  bool take_chunk_ended() { return std::exchange(chunk_ended_, false); }

  static constexpr std::uint32_t kMaxGreeting = 32 << 10;

 private:
  enum class Part { header, body, payload };
  // Counts an arriving frame as announced while it lives.
  class Announced {
   public:
    Announced(std::shared_ptr<std::atomic<std::uint64_t>> total, std::uint64_t bytes)
        : total_(std::move(total)), bytes_(bytes) {
      total_->fetch_add(bytes_, std::memory_order_relaxed);
    }
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;
    ~Announced() { total_->fetch_sub(bytes_, std::memory_order_relaxed); }

   private:
    const std::shared_ptr<std::atomic<std::uint64_t>> total_;
    const std::uint64_t bytes_;
  };
  // The arriving frame of one class.
  struct Stream {
    bool active = false;
    Part part = Part::header;
    std::string buffer;
    FrameHeader header;
    std::optional<Announced> announced;
    std::optional<FrameDecoder> decoder;
    std::size_t destination = 0;
    std::size_t offset = 0;
  };

  void begin_chunk();
  void end_chunk(const Sink& sink);
  std::size_t feed(Stream& stream, std::span<const char> bytes);
  std::size_t fill_buffer(Stream& stream, std::size_t wanted, std::span<const char> bytes);
  void begin_body(Stream& stream);
  void begin_payload(Stream& stream);
  static bool complete(const Stream& stream);
  static std::span<std::byte> next_destination(Stream& stream);
  static void advance(Stream& stream, std::size_t bytes);

  const Limits limits_;
  const Arrivals arrivals_;
  bool greeting_ = true;
  bool stopped_ = false;
  bool forgets_rest_ = false;
  std::array<Stream, kFrameClasses> streams_;
  std::array<char, kChunkHeaderBytes> chunk_header_{};
  std::size_t chunk_header_size_ = 0;
  Stream* current_ = nullptr;
  FrameClass current_class_ = FrameClass::control;
  bool last_chunk_ = false;
  bool chunk_ended_ = false;
  std::size_t chunk_left_ = 0;
  std::uint64_t bulk_allowed_ = 0;
  std::uint64_t bulk_received_ = 0;
};

}  // namespace troupe::wire
