// One connection over a socketpair, and its queue, step by step on one thread.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>

#include "tests/actors/wire/wire_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/wire/connection.hpp>

namespace troupe::wire {
namespace {

OutgoingFrame outgoing(const Frame& frame) {
  EncodedFrame encoded = encode(frame);
  const FrameClass frame_class = classify(frame, encoded.payload_bytes);
  return {std::move(encoded), frame_class, order_key(frame)};
}

// The bytes that the queue gives next, at most `limit` of them.
std::string take(SendQueue& queue, std::size_t limit = SIZE_MAX) {
  std::array<iovec, 8> iov;
  std::string out;
  while (out.size() < limit) {
    const auto pieces = queue.gather(iov);
    if (pieces.empty()) break;
    const std::size_t n = std::min(pieces[0].iov_len, limit - out.size());
    out.append(static_cast<const char*>(pieces[0].iov_base), n);
    queue.written(n);
  }
  return out;
}

struct Reading {
  Reading() {
    reader.handshake_done();
    reader.allow_bulk(1ull << 40);
  }
  void operator()(const std::string& bytes) {
    reader.consume(bytes, [&](Frame&& frame) { frames.push_back(std::move(frame)); });
  }
  ChunkReader reader{Limits{}};
  std::vector<Frame> frames;
};

TEST(SendQueue, ControlComesBeforeSmallBeforeBulk) {
  SendQueue queue;
  queue.add_credit(1ull << 30);
  queue.push(outgoing(put_of(pattern(300000), 1)));
  queue.push(outgoing(put_of(pattern(10), 2)));
  queue.push(outgoing(TakeToken{}));
  Reading reading;
  reading(take(queue));
  ASSERT_EQ(reading.frames.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<TakeToken>(reading.frames[0]));
  EXPECT_EQ(std::get<Put>(reading.frames[1]).key.edge.value, 2u);
  EXPECT_EQ(std::get<Put>(reading.frames[2]).key.edge.value, 1u);
}

TEST(SendQueue, ControlOvertakesABulkFrameThatIsHalfSent) {
  SendQueue queue;
  queue.add_credit(1ull << 30);
  const Tensor big = pattern(10 * kMaxChunk);
  queue.push(outgoing(put_of(big)));
  Reading reading;
  reading(take(queue, 3 * kMaxChunk));
  queue.push(outgoing(TakeToken{}));
  reading(take(queue, kMaxChunk + 100));
  ASSERT_EQ(reading.frames.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<TakeToken>(reading.frames[0]));
  reading(take(queue));
  ASSERT_EQ(reading.frames.size(), 2u);
  EXPECT_TRUE(bitwise_equal(std::get<Put>(reading.frames[1]).tensor, big));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.frames_sent(), 2u);
}

TEST(SendQueue, ASmallFrameWaitsBehindABulkOneOfItsEdgeOnly) {
  SendQueue queue;
  queue.add_credit(1ull << 30);
  queue.push(outgoing(put_of(pattern(300000), 1, 1)));
  queue.push(outgoing(put_of(pattern(10), 1, 2)));
  queue.push(outgoing(put_of(pattern(10), 2, 3)));
  Reading reading;
  reading(take(queue));
  ASSERT_EQ(reading.frames.size(), 3u);
  EXPECT_EQ(std::get<Put>(reading.frames[0]).key.step.value, 3u);
  EXPECT_EQ(std::get<Put>(reading.frames[1]).key.step.value, 1u);
  EXPECT_EQ(std::get<Put>(reading.frames[2]).key.step.value, 2u);
  // With nothing of the edge left in bulk, small frames are small again.
  queue.push(outgoing(put_of(pattern(300000), 5)));
  queue.push(outgoing(put_of(pattern(10), 1)));
  reading(take(queue));
  EXPECT_EQ(std::get<Put>(reading.frames[3]).key.edge.value, 1u);
}

TEST(SendQueue, BulkStopsAtItsCreditAndControlDoesNot) {
  SendQueue queue;
  queue.push(outgoing(put_of(pattern(5 * kMaxChunk))));
  EXPECT_TRUE(take(queue).empty());
  EXPECT_TRUE(queue.stalled());
  queue.add_credit(2 * kMaxChunk + 5);
  EXPECT_EQ(take(queue).size(), 2 * (kMaxChunk + kChunkHeaderBytes));
  EXPECT_TRUE(queue.stalled());
  EXPECT_EQ(queue.credit(), 5u);
  queue.push(outgoing(TakeToken{}));
  EXPECT_FALSE(queue.stalled());
  EXPECT_FALSE(take(queue).empty());
}

TEST(SendQueue, GoodbyeIsTheLastFrame) {
  SendQueue queue;
  queue.add_credit(1ull << 30);
  queue.push(outgoing(put_of(pattern(300000))));
  queue.finish(encode(Goodbye{}));
  queue.push(outgoing(TakeToken{}));  // too late
  Reading reading;
  reading(take(queue));
  ASSERT_EQ(reading.frames.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Goodbye>(reading.frames[1]));
  EXPECT_TRUE(queue.finished());
}

TEST(SendQueue, DroppingWhatWaitsLeavesTheStreamWellFormed) {
  for (const std::size_t sent : {0u, 1u, 7u, 8u, 50u, 200u, 1000u, 70000u, 400000u}) {
    SendQueue queue(100);  // small chunks: frames of all classes are cut
    queue.add_credit(1ull << 30);
    queue.push(outgoing(put_of(pattern(300000), 1)));
    const std::string first = take(queue, sent);
    queue.push(outgoing(put_of(pattern(30000), 2)));
    const std::string second = take(queue, sent);
    queue.push(outgoing(JobFailed{Error(Code::aborted, std::string(1000, 'x'))}));
    const std::string third = take(queue, sent);
    queue.drop_waiting();
    queue.finish(encode(Goodbye{Error(Code::aborted, std::string(300, 'y'))}));
    Reading reading;
    reading(first + second + third + take(queue));
    ASSERT_FALSE(reading.frames.empty()) << sent;
    EXPECT_TRUE(std::holds_alternative<Goodbye>(reading.frames.back())) << sent;
    EXPECT_TRUE(queue.finished()) << sent;
  }
}

TEST(ChunkReader, TakesAnyCutOfTheStream) {
  SendQueue queue(1000);
  queue.add_credit(1ull << 30);
  const Tensor big = pattern(70001);
  queue.push(outgoing(put_of(big)));
  queue.push(outgoing(put_of(pattern(2500), 2)));
  queue.push(outgoing(Heartbeat{5}));
  const std::string bytes = take(queue);
  for (const std::size_t step : {1u, 7u, 8u, 1007u, 4096u}) {
    Reading reading;
    for (std::size_t at = 0; at < bytes.size(); at += step) reading(bytes.substr(at, step));
    ASSERT_EQ(reading.frames.size(), 3u) << step;
    EXPECT_TRUE(bitwise_equal(std::get<Put>(reading.frames[2]).tensor, big)) << step;
  }
}

TEST(ChunkReader, ParsesNothingAfterStop) {
  Reading reading;
  const std::string bytes = whole_chunk(TakeToken{1}) + whole_chunk(TakeToken{2});
  int count = 0;
  reading.reader.consume(bytes, [&](Frame&&) {
    ++count;
    reading.reader.stop();
  });
  EXPECT_EQ(count, 1);
}

// Memory that is never touched: sizes are what counts.
class SparseBuffer final : public Buffer {
 public:
  explicit SparseBuffer(std::size_t bytes)
      : Buffer(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), bytes,
               MemorySpace{}) {}
  ~SparseBuffer() override { ::munmap(data(), size()); }
};

Tensor sparse(DType dtype, const Shape& shape) {
  return Tensor(dtype, shape, BufferRef(new SparseBuffer(checked_bytes(dtype, shape))));
}

TEST(ChunkReader, TakesATensorOfFiveGiBIfTheLimitsAllowIt) {
  constexpr std::int64_t kBytes = 5ll << 30;
  const Frame frame = put_of(sparse(DType::u8, Shape{kBytes}));
  EXPECT_THROW((void)encode(frame), Error);  // not by default
  const Limits large{.max_tensor_bytes = 6ull << 30, .max_payload = 6ull << 30};
  SendQueue queue;
  queue.add_credit(1ull << 40);
  queue.push({encode(frame, large), FrameClass::bulk, order_key(frame)});
  ChunkReader reader(large, {.allocate = sparse});
  reader.handshake_done();
  reader.allow_bulk(1ull << 40);
  std::vector<Frame> frames;
  const ChunkReader::Sink sink = [&](Frame&& f) { frames.push_back(std::move(f)); };
  const std::byte* next = nullptr;  // of the receiver's memory
  std::array<iovec, 1> iov;
  for (auto pieces = queue.gather(iov); !pieces.empty(); pieces = queue.gather(iov)) {
    const std::size_t size = pieces[0].iov_len;
    if (const auto direct = reader.direct(); !direct.empty()) {
      ASSERT_EQ(direct.size(), size);
      if (next) {
        ASSERT_EQ(direct.data(), next);
      }
      next = direct.data() + size;
      reader.received_direct(size, sink);
    } else {
      reader.consume({static_cast<const char*>(pieces[0].iov_base), size}, sink);
    }
    queue.written(size);
  }
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(std::get<Put>(frames[0]).tensor.num_bytes(), static_cast<std::size_t>(kBytes));
  Reading small;  // with the default limits: refused before anything is allocated
  EXPECT_THROW(small(chunk(FrameClass::bulk, kFirstChunk, encode(frame, large).head)), Error);
}

// Every field of the header of a chunk, and every value of it that may not be.
TEST(ChunkReader, RefusesEveryWrongFieldOfAChunkHeader) {
  const std::string good = whole_chunk(TakeToken{1});
  for (std::size_t byte = 0; byte < kChunkHeaderBytes; ++byte)
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      if (bytes[byte] == static_cast<char>(value)) continue;
      bytes[byte] = static_cast<char>(value);
      Reading reading;
      try {
        reading(bytes);
        EXPECT_TRUE(reading.frames.empty()) << byte << " " << value;  // the chunk is longer than what has come
        EXPECT_TRUE(byte == 1 || byte >= 4) << byte << " " << value;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == Code::data_loss) << error.to_string();
      }
    }
}

Error read_error(const std::string& bytes) {
  Reading reading;
  return testing::error_of([&] { reading(bytes); });
}

TEST(ChunkReader, TakesFramesInTheirClassOnly) {
  const Put small = put_of(pattern(kSmallPayload)), large = put_of(pattern(kSmallPayload + 1));
  EXPECT_TRUE(read_error(whole_chunk(small, FrameClass::small)).ok());
  EXPECT_TRUE(read_error(whole_chunk(small, FrameClass::bulk)).ok());  // it waited behind another of its edge
  EXPECT_TRUE(read_error(whole_chunk(large, FrameClass::bulk)).ok());
  EXPECT_EQ(read_error(whole_chunk(small, FrameClass::control)).code(), Code::data_loss);
  EXPECT_EQ(read_error(whole_chunk(TakeToken{}, FrameClass::small)).code(), Code::data_loss);
  EXPECT_EQ(read_error(whole_chunk(TakeToken{}, FrameClass::bulk)).code(), Code::data_loss);
}

// Past the credits, a peer could announce and send as much as it likes.
TEST(ChunkReader, AllocatesNothingForTensorsThatComePastTheCredits) {
  const std::string announced = encode(put_of(sparse(DType::u8, Shape{1 << 30}))).head;
  for (const FrameClass frame_class : {FrameClass::control, FrameClass::small}) {
    SCOPED_TRACE(::testing::Message() << "class " << static_cast<int>(frame_class));
    ChunkReader reader(Limits{}, {.allocate = [](DType, const Shape&) -> Tensor {
                         ADD_FAILURE() << "memory was allocated";
                         return {};
                       }});
    reader.handshake_done();
    const Error error =
        testing::error_of([&] { reader.consume(chunk(frame_class, kFirstChunk, announced), [](Frame&&) {}); });
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_EQ(error.message(), "tensors of 1073741824 bytes came in chunks of a class other than bulk");
  }
}

struct ConnectedEnds {
  explicit ConnectedEnds(std::uint64_t window) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    ConnectionOptions options;
    options.window = window;
    left.emplace(plain_channel(Fd(fds[0])), options, [] {});
    right.emplace(plain_channel(Fd(fds[1])), options, [] {});
    left->handshake_done();
    right->handshake_done();
    pump();
  }
  // Moves bytes until nothing moves any more.
  void pump() {
    for (std::uint64_t before = ~0ull; before != moved();) {
      before = moved();
      left->flush(1 << 20);
      right->receive(1 << 20, [&](Frame&& frame) { take(*right, std::move(frame)); });
      right->grant_credit();
      right->flush(1 << 20);
      left->receive(1 << 20, [&](Frame&& frame) { take(*left, std::move(frame)); });
    }
  }
  std::uint64_t moved() const { return left->counters().bytes_sent + right->counters().bytes_sent; }
  void take(Connection& at, Frame&& frame) {
    if (const auto* credit = std::get_if<Credit>(&frame))
      at.add_credit(credit->bytes);
    else
      frames.push_back(std::move(frame));
  }

  std::optional<Connection> left, right;
  std::vector<Frame> frames;
};

TEST(Connection, AReceiverThatDoesNotConsumeBoundsWhatIsInFlight) {
  constexpr std::uint64_t kWindow = 4 * kMaxChunk;
  ConnectedEnds ends(kWindow);
  ends.right->hold_credit(true);
  const Tensor tensor = pattern(3 * kMaxChunk);
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(ends.left->send(put_of(tensor, i)).ok()) << i;
  ends.pump();
  EXPECT_LE(ends.left->counters().bytes_sent, kWindow + 1000);
  EXPECT_GE(ends.left->counters().bytes_sent, kWindow - kMaxChunk);
  EXPECT_TRUE(ends.left->counters().stalled);
  EXPECT_EQ(ends.frames.size(), 1u);
  ASSERT_TRUE(ends.left->send(TakeToken{}).ok());
  ends.pump();
  EXPECT_EQ(ends.frames.size(), 2u);
  ends.right->hold_credit(false);
  ends.pump();
  ASSERT_EQ(ends.frames.size(), 11u);
  EXPECT_TRUE(bitwise_equal(std::get<Put>(ends.frames[10]).tensor, tensor));
  EXPECT_FALSE(ends.left->counters().stalled);
  EXPECT_EQ(ends.left->counters().frames_queued, ends.left->counters().frames_sent);
}

TEST(Connection, TheSmallestWindowNeverStallsForEver) {
  ConnectedEnds ends(2 * kMaxChunk);
  for (std::uint32_t i = 0; i < 40; ++i)
    ASSERT_TRUE(ends.left->send(put_of(pattern(kSmallPayload + 1 + i * 9000), i)).ok()) << i;
  ends.pump();
  EXPECT_EQ(ends.frames.size(), 40u);
}

TEST(Connection, NothingIsSentAfterTheEnd) {
  ConnectedEnds ends(2 * kMaxChunk);
  ends.left->finish(Error(Code::cancelled, "over"), Goodbye{}, true);
  EXPECT_EQ(ends.left->send(TakeToken{}).message(), "over");
  ends.pump();
  EXPECT_TRUE(ends.left->finished());
  ASSERT_EQ(ends.frames.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Goodbye>(ends.frames[0]));
}

}  // namespace
}  // namespace troupe::wire
