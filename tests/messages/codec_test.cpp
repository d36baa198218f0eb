#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <troupe/messages/codec.hpp>
#include <troupe/messages/type_name.hpp>

namespace troupe {
namespace {

const RendezvousKey kKey{SessionId{0x1122334455667788}, StepId{99}, EdgeId{0xfffffffe}};
const double kNan = std::bit_cast<double>(0x7ff8dead'beef0001ull);

Tensor bf16_tensor() {
  return Tensor::of<BFloat16>({2, 2}, {BFloat16(1.5f), BFloat16(-0.0f), BFloat16(3e38f), BFloat16(1e-38f)});
}

// One frame of each kind, in the order of their numbers, every field different from its default.
std::vector<Frame> samples() {
  const Token token{11, TokenKind::evaluate, 7, 3, 2, 640, 704, 1ull << 63, 21, 0.5, true};
  return {
      Hello{7, std::string("de\0mo", 5), {"worker", 3}, {"ps", 2147483647}, Incarnation{~0ull}, "7 8 9"},
      Heartbeat{0x0102030405060708},
      Credit{1ull << 40},
      Goodbye{Error(Code::unauthenticated, "wrong token: ä")},
      StepStart{SessionId{1}, GraphId{2}, StepId{3}, {4, 5, 6}},
      StepDone{SessionId{1}, StepId{2}, Error(Code::internal, "x")},
      StepAbort{SessionId{3}, StepId{4}, Error(Code::aborted, "")},
      Put{kKey, 12, bf16_tensor(), Error(Code::data_loss, "e")},
      Pull{4, kKey, 5, 6, 21, 8, 22, Tensor::vector<std::uint32_t>({7, 4294967295}), true},
      Push{1, 2, 6, 3, 4, 5, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), Tensor::vector<std::int64_t>({-1, 8}), 21,
           8, 0.25, true},
      Join{1, {2}, 3, "mode=sync\nslots=2", true, 20},
      TakeToken{9, 10, 21, 8},
      token,
      TokenDone{1, token, {{"loss", {-0.0, 64}}, {"auc", {}}}, 64, true, 21, 8, {5, 1ull << 40}},
      Staged{1, 2, 6, 3, 4, 21},
      EpochDone{1,
                2,
                {{"loss", {-0.0, std::numeric_limits<double>::infinity()}}},
                {{"x", {5e-324, -1.0 / 3}}},
                640,
                kNan,
                6,
                7e300,
                {true, false, 0.25},
                21},
      Barrier{4, 21, 8},
      BarrierOpen{5, 60, 21, 3},
      JobFailed{Error(Code::deadline_exceeded, std::string(5000, 'm')), 21},
      CollectivePart{1, 2, 3, "all_reduce sum of f32[3] 'x'", 4, 5, 6, Tensor::vector<float>({1, 2, 3}),
                     Error(Code::aborted, "e")},
      SharedMemoryAnswer{true},
      Joined{{22}, 21, 7, Error(Code::failed_precondition, "another"), 8, {1, 2, {3, 4}}},
      Leave{1, {2}, true, 20, Error(Code::cancelled, "stopped")},
      Fence{1, 8, Error(Code::unavailable, "silence"), 21},
      Commit{7, 1, {0, 2, 3}, 21},
      Save{12, 21},
      Saved{1, 12, "shard-1 7 99", Error(Code::resource_exhausted, "disk full"), 21},
      ControlBytes{std::string("\0\1", 2)},
      OpenFeed{31, "batch=4\nslots=2", {1, 2, {3, 4}}},
      WantBatch{31, {true, 2, 1ull << 40, 3}, {false, 1, 9, 2}},
      BatchMade{31,
                {true, 2, 1ull << 40, 3},
                64,
                true,
                {bf16_tensor(), Tensor::vector<std::int64_t>({-1, 8}), Tensor::vector<std::string>({"a", ""})},
                Error(Code::data_loss, "cut"),
                {7, 8}},
      CloseFeed{31, 600, 3, Error(Code::cancelled, "stopped")},
      ReplicaModels{"{}", {1ull << 60, {{"m", "models/m", 2, true, {3, -4}, {"stable", "old"}, {3, 2}}}}},
      AskModel{1ull << 33,
               "digits",
               3,
               "predict",
               {"x", "y"},
               {bf16_tensor(), Tensor::vector<std::string>({"a"})},
               {"z"},
               7'000,
               "00-1-2-01"},
      ModelAnswer{1ull << 33, {"z"}, {bf16_tensor()}, Error(Code::unavailable, "full"), 20, 1, 2, 3},
      DropModelRequest{1ull << 33},
      WantModels{2},
      ConfigureModels{1ull << 33, true, {1ull << 60, {{"m", "models/m", 2, true, {3}, {"stable"}, {3}}, {"n"}}}},
      ModelsConfigured{1ull << 33, Error(Code::failed_precondition, "not ready")},
  };
}

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
bool same(const Tensor& a, const Tensor& b) { return bitwise_equal(a, b); }
bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return bitwise_equal(x, y); });
}
bool same(const Error& a, const Error& b) { return a.code() == b.code() && a.message() == b.message(); }
template <class T>
bool same(const T& a, const T& b) {
  if constexpr (HasFields<const T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (same(std::get<I>(a.fields()), std::get<I>(b.fields())) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(a.fields())>>{});
  } else {
    return a == b;
  }
}
bool same(const Frame& a, const Frame& b) {
  return a.index() == b.index() &&
         std::visit([&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
}

Code code_of_decoding(std::string_view bytes, const Limits& limits = {}) {
  try {
    (void)decode_from_string(bytes, limits);
    return Code::ok;
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    return error.code();
  }
}

bool is_refusal(Code code) {
  return code == Code::data_loss || code == Code::invalid_argument || code == Code::resource_exhausted;
}

Frame round_trip(const Frame& frame) { return decode_from_string(encode_to_string(frame)); }

TEST(Codec, EveryKindArrivesAsItWasSent) {
  const auto frames = samples();
  ASSERT_EQ(frames.size(), std::variant_size_v<FrameVariant>);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    ASSERT_EQ(frames[i].index(), i) << kind_name(frames[i]);
    EXPECT_TRUE(same(frames[i], round_trip(frames[i]))) << kind_name(frames[i]);
  }
}

TEST(Frames, AreNamedByTheirTypes) {
  static_assert(type_name<Put>() == "Put");
  static_assert(type_name<std::uint32_t>() == "unsigned int");
  EXPECT_EQ(kind_name(Frame()), "Hello");
  EXPECT_EQ(kind_name(SharedMemoryAnswer{}), "SharedMemoryAnswer");
  EXPECT_EQ(kind_name(ControlBytes{}), "ControlBytes");
}

template <class T>
void expect_no_defaults(const T& value) {
  const T fresh{};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const bool unset[] = {same(std::get<I>(value.fields()), std::get<I>(fresh.fields()))...};
    for (std::size_t i = 0; i < sizeof...(I); ++i) EXPECT_FALSE(unset[i]) << kind_name(value) << " field " << i;
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(value.fields())>>{});
}

TEST(Codec, TheSamplesLeaveNoFieldAtItsDefault) {
  for (const Frame& frame : samples()) std::visit([](const auto& value) { expect_no_defaults(value); }, frame);
}

TEST(Codec, BytesOfAFrameAreThoseOfTheFormat) {
  const unsigned char wanted[] = {'T', 'R', 'P', 'F', 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
                                  0,   0,   0,   0,   0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(encode_to_string(Heartbeat{0x0102030405060708}),
            std::string(reinterpret_cast<const char*>(wanted), sizeof wanted));
}

TEST(Codec, TensorsOfEveryKindArriveBitEqual) {
  std::vector<Tensor> tensors = {
      Tensor(),
      Tensor(DType::f32, Shape{0, 5}),
      Tensor::scalar(std::bit_cast<float>(0x7f800001u)),
      Tensor::vector<double>({kNan, -0.0, 5e-324}),
      Tensor::vector<Half>({Half(0.5f), Half(-0.0f)}),
      Tensor::vector<bool>({true, false, true}),
      Tensor::of<std::int8_t>({1, 1, 1, 1, 1, 1, 1, 3}, {-128, 0, 127}),
      Tensor::vector<std::string>({"", std::string("a\0b", 3), std::string(70000, 'z')}),
      Tensor(DType::string, Shape{0}),
      Tensor::scalar(std::string("")),
      Tensor::of<std::int32_t>({3, 2}, {0, 1, 2, 3, 4, 5}).rows(1, 2),  // not aligned
  };
  for (const Tensor& tensor : tensors) {
    const Frame back = round_trip(Put{kKey, 1, tensor, {}});
    EXPECT_TRUE(bitwise_equal(std::get<Put>(back).tensor, tensor)) << tensor.to_string();
    if (tensor.valid()) {
      EXPECT_TRUE(std::get<Put>(back).tensor.aligned()) << tensor.to_string();
    }
  }
  const Frame push = round_trip(Push{1, 2, 0, 3, 4, 5, tensors[7], tensors[3]});
  EXPECT_TRUE(bitwise_equal(std::get<Push>(push).gradient, tensors[7]));
  EXPECT_TRUE(bitwise_equal(std::get<Push>(push).indices, tensors[3]));
}

TEST(Codec, PayloadsAreTheTensorsOwnMemory) {
  const Tensor tensor = Tensor::vector<float>({1, 2, 3});
  const EncodedFrame encoded = encode(Put{kKey, 1, tensor, {}});
  ASSERT_EQ(encoded.payloads.size(), 1u);
  EXPECT_EQ(encoded.payloads[0].raw(), tensor.raw());
  EXPECT_EQ(encoded.payload_bytes, 12u);
  EXPECT_EQ(encoded.size(), encode_to_string(Put{kKey, 1, tensor, {}}).size());
}

TEST(Codec, EveryTruncationAndExtensionIsRefused) {
  for (const Frame& frame : samples()) {
    const std::string bytes = encode_to_string(frame);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_EQ(code_of_decoding(std::string_view(bytes).substr(0, size)), Code::data_loss)
          << kind_name(frame) << " cut to " << size;
    EXPECT_EQ(code_of_decoding(bytes + '\0'), Code::data_loss) << kind_name(frame);
  }
}

TEST(Codec, ABodyWithBytesLeftBehindItsFieldsIsRefused) {
  std::string bytes = encode_to_string(Heartbeat{1}) + '\0';
  bytes[8] = 9;
  EXPECT_EQ(code_of_decoding(bytes), Code::data_loss);
}

TEST(Codec, EveryFlippedBitOfAHeaderIsRefusedUnlessItNamesAnotherKind) {
  for (const Frame& frame : samples()) {
    const std::string bytes = encode_to_string(frame);
    for (std::size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
      std::string bad = bytes;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      const Code code = code_of_decoding(bad);
      const bool kind_byte = bit / 8 == 4 || bit / 8 == 5;
      EXPECT_TRUE(is_refusal(code) || (kind_byte && code == Code::ok))
          << kind_name(frame) << " bit " << bit << ": " << name(code);
    }
  }
}

TEST(Codec, FlippedBytesOfABodyNeverDoMoreThanFail) {
  for (const Frame& frame : samples()) {
    const std::string bytes = encode_to_string(frame);
    const std::size_t end = std::min<std::size_t>(bytes.size(), 300);
    for (std::size_t i = kFrameHeaderBytes; i < end; ++i)
      for (int flip : {0x01, 0x80, 0xff}) {
        std::string bad = bytes;
        bad[i] = static_cast<char>(bad[i] ^ flip);
        const Code code = code_of_decoding(bad);
        EXPECT_TRUE(code == Code::ok || is_refusal(code)) << kind_name(frame) << " byte " << i << ": " << name(code);
      }
  }
}

TEST(Codec, RandomBytesNeverDoMoreThanFail) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (bytes.size() >= kFrameHeaderBytes) {  // a header that is believed, so that the body is reached
      const std::string honest = encode_to_string(Barrier{});
      bytes.replace(0, kFrameHeaderBytes, honest.substr(0, kFrameHeaderBytes));
      bytes[4] = static_cast<char>(random() % std::variant_size_v<FrameVariant>);
      bytes[8] = static_cast<char>(bytes.size() - kFrameHeaderBytes);
      if (round % 2) bytes[6] = static_cast<char>(random() % 3);
    }
    const Code code = code_of_decoding(bytes);
    EXPECT_TRUE(code == Code::ok || is_refusal(code)) << name(code);
  }
}

// Decodes header and body with an allocator that counts.
std::pair<Code, int> allocations_of(const std::string& bytes, const Limits& limits) {
  int allocated = 0;
  try {
    const FrameHeader header = parse_frame_header(bytes, limits);
    FrameDecoder decoder(header, std::string_view(bytes).substr(kFrameHeaderBytes, header.body_bytes), limits,
                         [&](DType dtype, const Shape& shape) {
                           ++allocated;
                           return Tensor(dtype, shape);
                         });
    return {Code::ok, allocated};
  } catch (const Error& error) {
    return {error.code(), allocated};
  }
}

// A Put of which the tensor's announcement is written by hand.
std::string put_announcing(DType dtype, std::vector<std::int64_t> dims, std::uint64_t payload) {
  std::string bytes = encode_to_string(Put{kKey, 1, Tensor(), {}});
  std::string announced(1, static_cast<char>(dtype));
  announced += static_cast<char>(dims.size());
  for (const std::int64_t dim : dims) append_little_endian(announced, static_cast<std::uint64_t>(dim));
  append_little_endian(announced, payload);
  const std::size_t at = bytes.size() - 1 - 5;  // before the error: code and length of the message
  bytes.replace(at, 1, announced);
  std::string header;
  append_little_endian(header, static_cast<std::uint16_t>(1));
  append_little_endian(header, static_cast<std::uint32_t>(bytes.size() - kFrameHeaderBytes));
  append_little_endian(header, std::uint32_t{0});
  append_little_endian(header, payload);
  bytes.replace(6, header.size(), header);
  return bytes;
}

TEST(Codec, HostileSizesAllocateNothing) {
  const Limits small{.max_body = 4096, .max_tensor_bytes = 1000, .max_payload = 1500};
  struct Case {
    std::string what;
    std::string bytes;
    Code code;
  };
  const std::int64_t huge = std::int64_t{1} << 62;
  const std::vector<Case> cases = {
      {"more than a tensor may have", put_announcing(DType::u8, {1001}, 1001), Code::resource_exhausted},
      {"more than a frame may have", put_announcing(DType::u8, {1501}, 1501), Code::resource_exhausted},
      {"product overflows", put_announcing(DType::f32, {huge, huge}, 4), Code::invalid_argument},
      {"bytes overflow", put_announcing(DType::f64, {huge}, 8), Code::invalid_argument},
      {"empty but absurd", put_announcing(DType::f32, {huge, huge, 0}, 0), Code::invalid_argument},
      {"negative dimension", put_announcing(DType::f32, {-1}, 4), Code::data_loss},
      {"nine dimensions", put_announcing(DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 4), Code::data_loss},
      {"payload is not the shape's", put_announcing(DType::f32, {10}, 41), Code::data_loss},
      {"strings without bytes", put_announcing(DType::string, {20}, 79), Code::data_loss},
      {"strings without memory", put_announcing(DType::string, {100}, 400), Code::resource_exhausted},
      {"a resource", put_announcing(DType::resource, {1}, 0), Code::data_loss},
      {"unknown dtype", put_announcing(static_cast<DType>(77), {1}, 0), Code::data_loss},
  };
  for (const Case& c : cases) EXPECT_EQ(allocations_of(c.bytes, small), std::pair(c.code, 0)) << c.what;
  EXPECT_EQ(allocations_of(put_announcing(DType::u8, {1000}, 1000), small), std::pair(Code::ok, 1));

  std::string long_body = encode_to_string(Heartbeat{});
  long_body[10] = 1;  // 65544 bytes
  EXPECT_EQ(allocations_of(long_body, small).first, Code::resource_exhausted);
  // Each of two tensors is within the limit, their sum is not; the second is not allocated, nor is the first.
  const std::string two = encode_to_string(Push{1, 2, 0, 3, 4, 5, Tensor(DType::i8, {800}), Tensor(DType::i8, {800})});
  EXPECT_EQ(allocations_of(two, small), std::pair(Code::resource_exhausted, 0));
}

TEST(Codec, AStringLongerThanTheBodyIsRefused) {
  std::string bytes = encode_to_string(JobFailed{Error(Code::internal, "abc")});
  bytes[kFrameHeaderBytes + 4] = '\x7f';  // the top byte of the message's length
  EXPECT_EQ(code_of_decoding(bytes), Code::data_loss);
}

TEST(Codec, UnknownEnumsAreRefused) {
  std::string error = encode_to_string(JobFailed{});
  error[kFrameHeaderBytes] = 17;
  EXPECT_EQ(code_of_decoding(error), Code::data_loss);
  std::string token = encode_to_string(Token{});
  token[kFrameHeaderBytes + 8] = 3;  // behind the request
  EXPECT_EQ(code_of_decoding(token), Code::data_loss);
  std::string hello = encode_to_string(Hello{1, "", {"a", 0}, {"b", -1}, {}, {}});
  EXPECT_EQ(code_of_decoding(hello), Code::data_loss);
}

TEST(Codec, MalformedElementsAreRefused) {
  std::string truth = encode_to_string(Put{kKey, 1, Tensor::vector<bool>({true, false}), {}});
  truth.back() = 2;
  EXPECT_EQ(code_of_decoding(truth), Code::data_loss);

  const std::string strings = encode_to_string(Put{kKey, 1, Tensor::vector<std::string>({"ab", "cd"}), {}});
  for (const auto& [offset, value] : {std::pair(12, 3), std::pair(12, 1), std::pair(6, 1), std::pair(6, 9)}) {
    std::string bad = strings;
    bad[bad.size() - static_cast<std::size_t>(offset)] = static_cast<char>(value);
    EXPECT_EQ(code_of_decoding(bad), Code::data_loss) << offset << " " << value;
  }
}

TEST(Codec, SendersRefuseWhatReceiversWould) {
  const Limits small{.max_body = 100, .max_tensor_bytes = 1000, .max_payload = 1500};
  const Tensor big(DType::i8, {800});
  EXPECT_THROW(encode(Put{kKey, 1, Tensor(DType::i8, {1001}), {}}, small), Error);
  EXPECT_THROW(encode(Put{kKey, 1, Tensor(DType::string, {40}), {}}, small), Error);
  EXPECT_THROW(encode(Push{1, 2, 0, 3, 4, 5, big, big}, small), Error);
  EXPECT_THROW(encode(JobFailed{Error(Code::internal, std::string(200, 'x'))}, small), Error);
  EXPECT_NO_THROW(encode(Put{kKey, 1, big, {}}, small));
}

TEST(Codec, LongReasonsAreCut) {
  const Frame back = round_trip(JobFailed{Error(Code::internal, std::string(1 << 21, 'x'))});
  EXPECT_EQ(std::get<JobFailed>(back).error.message(), std::string(kMaxErrorMessage, 'x'));
}

struct Generic {
  bool truth = false;
  std::vector<std::uint16_t> numbers;
  std::vector<std::string> texts;
  auto fields() { return std::tie(truth, numbers, texts); }
  auto fields() const { return std::tie(truth, numbers, texts); }
};

TEST(Codec, FieldsMayBeTruthValuesAndVectors) {
  std::string bytes;
  std::vector<Tensor> tensors;
  BodyWriter(bytes, tensors)(Generic{true, {1, 65535}, {"a", ""}});
  const Limits limits;
  Generic back;
  BodyReader reader(bytes, limits);
  reader(back);
  EXPECT_EQ(reader.bytes_left(), 0u);
  EXPECT_TRUE(back.truth);
  EXPECT_EQ(back.numbers, (std::vector<std::uint16_t>{1, 65535}));
  EXPECT_EQ(back.texts, (std::vector<std::string>{"a", ""}));
  bytes[4] = '\x7f';  // the top byte of the count of numbers
  BodyReader hostile(bytes, limits);
  EXPECT_THROW(hostile(back), Error);
  bytes[4] = 0;
  bytes[0] = 2;
  BodyReader wrong(bytes, limits);
  EXPECT_THROW(wrong(back), Error);
}

}  // namespace
}  // namespace troupe
