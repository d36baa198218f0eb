#include "tests/fuzz/frame_fuzz.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <troupe/actors/wire/chunk_reader.hpp>
#include <troupe/actors/wire/send_queue.hpp>

namespace troupe::wire {
namespace {

constexpr Limits kLimits{.max_body = 32 << 10, .max_tensor_bytes = 64 << 10, .max_payload = 128 << 10};
constexpr char kAfterHello = 1;

void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of the frame parser: %s\n", what);
  std::abort();
}

Tensor allocate(DType dtype, const Shape& shape) {
  promise(checked_bytes(dtype, shape) <= kLimits.max_tensor_bytes, "no tensor exceeds the limit");
  return Tensor(dtype, shape);
}

void send_on(const Frame& frame) {
  const std::string bytes = encode_to_string(frame, kLimits);
  promise(encode_to_string(decode_from_string(bytes, kLimits), kLimits) == bytes, "a frame that came can be sent on");
}

// `how`: the first byte of read_as_peer().
std::string stream_of(char how, const std::vector<Frame>& frames, std::size_t chunk_bytes) {
  SendQueue queue(chunk_bytes);
  queue.add_credit(1ull << 30);
  for (const Frame& frame : frames) {
    EncodedFrame encoded = encode(frame, kLimits);
    const FrameClass frame_class = classify(frame, encoded.payload_bytes);
    queue.push({std::move(encoded), frame_class, order_key(frame)});
  }
  std::array<iovec, 8> iov;
  std::string out(1, how);
  for (auto pieces = queue.gather(iov); !pieces.empty(); pieces = queue.gather(iov)) {
    out.append(static_cast<const char*>(pieces[0].iov_base), pieces[0].iov_len);
    queue.written(pieces[0].iov_len);
  }
  return out;
}

}  // namespace

std::size_t read_as_peer(std::string_view input) {
  if (input.empty()) return 0;
  const auto how = static_cast<unsigned char>(input[0]);
  input.remove_prefix(1);
  ChunkReader reader(kLimits, {.allocate = allocate});
  if (how & kAfterHello) reader.handshake_done();
  reader.allow_bulk(1 << 20);
  std::size_t frames = 0;
  const ChunkReader::Sink sink = [&](Frame&& frame) {
    ++frames;
    send_on(frame);
  };
  std::size_t cut = 1 + how / 2u;
  try {
    while (!input.empty()) {
      const std::span<std::byte> direct = reader.direct();
      const std::size_t n = std::min({input.size(), cut, direct.empty() ? input.size() : direct.size()});
      if (direct.empty()) {
        reader.consume({input.data(), n}, sink);
      } else {
        std::memcpy(direct.data(), input.data(), n);
        reader.received_direct(n, sink);
      }
      input.remove_prefix(n);
      cut = 1 + (cut * 31 + 17) % 5000;
    }
  } catch (const Error& error) {
    const Code code = error.code();
    promise(code == Code::data_loss || code == Code::invalid_argument || code == Code::resource_exhausted ||
                code == Code::unauthenticated,
            "errors are of four codes");
    promise(!error.message().empty(), "errors say what is wrong");
  }
  return frames;
}

std::vector<std::string> frame_seeds() {
  const RendezvousKey key{SessionId{1}, StepId{2}, EdgeId{3}};
  const Tensor numbers = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor words = Tensor::of<std::string>({2}, {"to", "fro"});
  const Tensor truths = Tensor::of<bool>({3}, {true, false, true});
  const std::vector<Frame> greeting = {
      Hello{kProtocolVersion, "demo", {"worker", 0}, {"ps", 0}, Incarnation{7}, "1 2 3"}};
  const std::vector<Frame> steps = {Heartbeat{1},
                                    Credit{1 << 20},
                                    StepStart{SessionId{1}, GraphId{2}, StepId{3}, {4, 5, 6}},
                                    Put{key, 0, numbers, {}},
                                    Put{key, 0, words, {}},
                                    Put{key, 0, truths, {}},
                                    Put{key, 0, Tensor(DType::f64, Shape{0, 4}), {}},
                                    Put{key, 0, Tensor::zeros(DType::u8, Shape{60000}), {}},
                                    StepDone{SessionId{1}, StepId{3}, Error(Code::aborted, "why")}};
  const std::vector<Frame> training = {Pull{1, key, 2, 3},
                                       Push{1, 2, 0, 3, 4, 5, numbers, Tensor::vector<std::int64_t>({0, 8})},
                                       Join{1, {2}, 3, "mode=sync"},
                                       Token{},
                                       TokenDone{1, {}, {{"loss", {1, 2}}}, 2},
                                       Staged{1, 2, 0, 3, 4},
                                       EpochDone{},
                                       JobFailed{Error(Code::internal, "x")},
                                       SharedMemoryAnswer{true},
                                       ControlBytes{"bytes"},
                                       OpenFeed{1, "batch=4", {0, 1, {2}}},
                                       WantBatch{1, {false, 0, 2, 1}, {}},
                                       BatchMade{1, {false, 0, 2, 1}, 3, false, {numbers, words, truths}, {}, {4}},
                                       CloseFeed{1, 2, 3, {}},
                                       AskModel{1, "m", 2, "s", {"x"}, {numbers}, {"y"}, 5},
                                       ModelAnswer{1, {"y"}, {words}, {}, 1, 2, 3, 4},
                                       ReplicaModels{"{}", {3, {{"m", "p", 2, true, {4}, {"l"}, {5}}}}},
                                       ConfigureModels{1, true, {3, {{"m", "p", 0, false, {1, 2}, {}, {}}, {}}}},
                                       ModelsConfigured{1, Error(Code::invalid_argument, "no")},
                                       DropModelRequest{1},
                                       Goodbye{}};
  std::vector<std::string> seeds = {stream_of('\x40', greeting, kMaxChunk), stream_of('\x41', steps, kMaxChunk),
                                    stream_of('\x03', steps, 50), stream_of('\xff', training, kMaxChunk)};
  for (const Frame& frame : steps) seeds.push_back(stream_of('\x21', {frame}, kMaxChunk));
  for (const Frame& frame : training) seeds.push_back(stream_of('\x21', {frame}, 20));
  return seeds;
}

}  // namespace troupe::wire
