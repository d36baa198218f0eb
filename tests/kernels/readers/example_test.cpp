#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/error_of.hpp"
#include "tests/kernels/readers/hex.hpp"
#include <troupe/kernels/readers/example.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr RecordPlace kPlace{.file = "/data", .offset = 42};

// A field of wire type 2.
std::string field(int number, const std::string& value) {
  EXPECT_LT(value.size(), 128u);
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}
std::string entry(const std::string& name, const std::string& feature) {
  return field(1, field(1, name) + field(2, feature));
}
std::string example_with(const std::string& feature) { return field(1, entry("x", feature)); }

std::string text_of(const std::vector<Tensor>& tensors) {
  std::string out;
  for (const Tensor& t : tensors) out += (out.empty() ? "" : "; ") + t.to_string(20);
  return out;
}
std::string parsed(const std::vector<ExampleFeature>& features, const std::string& record) {
  return text_of(ExampleParser(features).parse(record, kPlace));
}
std::string refused(const std::vector<ExampleFeature>& features, const std::string& record) {
  return error_of([&] { parsed(features, record); }).to_string();
}

const ExampleFeature kFloats{.name = "x", .dtype = DType::f32, .shape = {2}};
const ExampleFeature kIntegers{.name = "x", .dtype = DType::i64, .shape = {3}};

// As TensorFlow 2.21 writes these features, serialized with deterministic=True.
const char* const kOfTensorFlow =
    "0a7b0a170a0369647312101a0e0a0c01ac028080808080808080400a130a05696d616765120a0a080a06007fff0102030a170a056c6162656c"
    "120e1a0c0a0af9ffffffffffffffff010a080a046e6f6e6512000a150a0474657874120d0a0b0a0568656c6c6f0a02c3a90a110a0177120c12"
    "0a0a080000003f000000c0";

TEST(Example, OfTensorFlowIsRead) {
  EXPECT_EQ(parsed({{.name = "w", .shape = {2}},
                    {.name = "ids", .dtype = DType::i64, .shape = {3}},
                    {.name = "image", .dtype = DType::u8, .shape = {2, 3}},
                    {.name = "label", .dtype = DType::i64},
                    {.name = "text", .dtype = DType::string, .shape = {kUnknown}},
                    {.name = "none", .otherwise = Tensor::scalar<float>(9)}},
                   bytes_of(kOfTensorFlow)),
            "f32[2] = 0.5 -2; i64[3] = 1 300 4611686018427387904; u8[2,3] = 0 127 255 1 2 3; i64[] = -7; "
            "string[2] = hello é; f32[] = 9");
}

TEST(Example, IsWrittenWithTheBytesOfTensorFlow) {
  const std::vector<NamedTensor> tensors = {{"ids", Tensor::vector<std::int64_t>({1, 300, std::int64_t{1} << 62})},
                                            {"image", Tensor::scalar<std::string>(std::string("\0\x7f\xff\1\2\3", 6))},
                                            {"label", Tensor::scalar<std::int32_t>(-7)},
                                            {"text", Tensor::vector<std::string>({"hello", "é"})},
                                            {"w", Tensor::vector<float>({0.5, -2})}};
  std::string want = kOfTensorFlow;
  const std::string none = "0a080a046e6f6e651200";
  want.erase(want.find(none), none.size());
  want.replace(0, 4, "0a71");
  EXPECT_EQ(hex_of(example_of(tensors)), want);
}

TEST(Example, ComesBackWithTheSameValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<NamedTensor> tensors = {
      {"b", Tensor::vector<bool>({true, false})},
      {"bytes", Tensor::vector<std::uint8_t>({0, 255})},
      {"f", Tensor::of<float>(Shape{2, 2}, {-0.0F, nan, 1e-42F, 3})},
      {"i", Tensor::vector<std::int32_t>({-1, 1 << 30})},
      {"l", Tensor::vector<std::int64_t>(
                {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})},
      {"nothing", Tensor(DType::f32, Shape{0})},
      {"s", Tensor::vector<std::string>({"", std::string(300, 'x')})}};
  const std::string record = example_of(tensors);
  const auto features = infer_example(record, kPlace);
  BatchSchema want;
  for (const NamedTensor& t : tensors)
    want.push_back({t.name,
                    is_integer(t.tensor.dtype()) || t.tensor.dtype() == DType::boolean ? DType::i64 : t.tensor.dtype(),
                    t.tensor.num_elements() == 0 ? Shape{kUnknown} : Shape{t.tensor.num_elements()}});
  const ExampleParser parser(features);
  EXPECT_EQ(to_string(parser.schema()), to_string(want));
  const std::vector<Tensor> found = parser.parse(record, kPlace);
  EXPECT_EQ(found[0].to_string(), "i64[2] = 1 0");
  EXPECT_EQ(found[1].to_string(), "i64[2] = 0 255");
  EXPECT_TRUE(bitwise_equal(found[2], tensors[2].tensor.reshaped(Shape{4})));
  EXPECT_EQ(found[3].to_string(), "i64[2] = -1 1073741824");
  EXPECT_TRUE(bitwise_equal(found[4], tensors[4].tensor));
  EXPECT_EQ(found[5].shape(), Shape{0});
  EXPECT_TRUE(bitwise_equal(found[6], tensors[6].tensor));
}

TEST(Example, WithWhatNoListKeepsIsNotWritten) {
  const auto not_written = [](std::vector<NamedTensor> tensors) {
    return error_of([&] { example_of(tensors); }).to_string();
  };
  EXPECT_EQ(not_written({{"d", Tensor::scalar<double>(1)}}),
            "invalid_argument: feature 'd': no list of an Example keeps f64: cast it to f32");
  EXPECT_EQ(not_written({{"u", Tensor::scalar<std::uint64_t>(1)}}),
            "invalid_argument: feature 'u': no list of an Example keeps u64: cast it to i64");
  EXPECT_EQ(not_written({{"x", Tensor::scalar<float>(1)}, {"x", Tensor::scalar<float>(1)}}),
            "invalid_argument: an Example has one feature 'x', not two");
}

TEST(Example, ListsMayBePackedOrNotOrBoth) {
  const std::string a("\0\0\x80\x3f", 4), b("\0\0\0\x40", 4), one_float = "\x0d";
  EXPECT_EQ(parsed({kFloats}, example_with(field(2, one_float + a + one_float + b))), "f32[2] = 1 2");
  EXPECT_EQ(parsed({kFloats}, example_with(field(2, field(1, a) + one_float + b))), "f32[2] = 1 2");
  EXPECT_EQ(parsed({kFloats}, example_with(field(2, field(1, a) + field(1, "") + field(1, b)))), "f32[2] = 1 2");
  EXPECT_EQ(parsed({kIntegers}, example_with(field(3, "\x08\x05\x08\xac\x02\x08\x07"))), "i64[3] = 5 300 7");
  EXPECT_EQ(parsed({kIntegers}, example_with(field(3, "\x08\x05" + field(1, "\xac\x02\x07")))), "i64[3] = 5 300 7");
  // Lists of one kind that follow each other are one; another kind replaces them.
  EXPECT_EQ(parsed({kIntegers},
                   example_with(field(2, one_float + a) + field(3, "\x08\x05") + field(3, field(1, "\x06\x07")))),
            "i64[3] = 5 6 7");
}

TEST(Example, UnknownFieldsArePassedOver) {
  const std::string unknown =
      field(7, "?") + std::string("\x48\x96\x01", 3) + std::string("\x51????????", 9) + std::string("\x5d????", 5);
  const std::string list = unknown + field(1, "\x05\x06") + unknown + "\x08\x07";
  const std::string known = entry("x", unknown + field(3, list) + unknown);
  EXPECT_EQ(parsed({kIntegers}, unknown + field(1, known + unknown) + unknown), "i64[3] = 5 6 7");
  // A known number with another wire type is unknown, too.
  EXPECT_EQ(parsed({kIntegers}, "\x08\x01" + example_with(field(3, field(1, "\x05\x06\x07") + "\x0d????"))),
            "i64[3] = 5 6 7");
}

TEST(Example, OfFeaturesWithOneNameTheLastCounts) {
  const std::string first = entry("x", field(1, field(1, "other"))), second = entry("x", field(3, field(1, "\1\2\3")));
  EXPECT_EQ(parsed({kIntegers}, field(1, first + second)), "i64[3] = 1 2 3");
  EXPECT_EQ(parsed({kIntegers}, field(1, first) + field(1, second)), "i64[3] = 1 2 3");
  EXPECT_THAT(refused({kIntegers}, field(1, second + first)), HasSubstr("feature 'x' has bytes_list"));
  EXPECT_EQ(infer_example(field(1, first + second), kPlace)[0].dtype, DType::i64);
}

TEST(Example, MissingFeaturesTakeTheirDefaults) {
  const std::vector<ExampleFeature> features = {
      {.name = "f", .shape = {2}, .otherwise = Tensor::vector<float>({1, 2})},
      {.name = "i", .dtype = DType::i64, .shape = {kUnknown}, .otherwise = Tensor(DType::i64, Shape{0})},
      {.name = "s", .dtype = DType::string, .otherwise = Tensor::scalar<std::string>("none")},
      {.name = "u", .dtype = DType::u8, .shape = {1}, .otherwise = Tensor::vector<std::uint8_t>({7})}};
  const std::string want = "f32[2] = 1 2; i64[0] =; string[] = none; u8[1] = 7";
  EXPECT_EQ(parsed(features, ""), want);
  EXPECT_EQ(parsed(features, field(1, entry("f", "") + entry("s", field(9, "?")))), want);
  const auto alone = ExampleParser(features).parse("", kPlace);
  EXPECT_NE(alone[0].raw(), features[0].otherwise.raw());
}

TEST(Example, RowsOfABatchAreWrittenInPlace) {
  const std::vector<ExampleFeature> features = {
      {.name = "f", .shape = {2}, .otherwise = Tensor::vector<float>({8, 9})},
      {.name = "i", .dtype = DType::i64},
      {.name = "s", .dtype = DType::string, .shape = {1}, .otherwise = Tensor::vector<std::string>({"none"})},
      {.name = "u", .dtype = DType::u8, .shape = {2}}};
  const ExampleParser parser(features);
  std::vector<Tensor> batch;
  for (const BatchComponent& component : parser.schema())
    batch.push_back(Tensor::zeros(component.dtype, component.batch_shape(3)));
  const void* const memory = batch[0].raw();
  const auto u = [](const char* bytes) { return Tensor::scalar<std::string>(bytes); };
  parser.parse(example_of(std::vector<NamedTensor>{{"u", u("AB")}, {"i", Tensor::scalar<std::int64_t>(4)}}), kPlace, 2,
               batch);
  parser.parse(example_of(std::vector<NamedTensor>{{"f", Tensor::vector<float>({1, 2})},
                                                   {"i", Tensor::scalar<std::int64_t>(5)},
                                                   {"s", Tensor::scalar<std::string>("text")},
                                                   {"u", u("CD")}}),
               kPlace, 1, batch);
  EXPECT_EQ(text_of(batch),
            "f32[3,2] = 0 0 1 2 8 9; i64[3] = 0 5 4; string[3,1] =  text none; u8[3,2] = 0 0 67 68 65 66");
  EXPECT_EQ(batch[0].raw(), memory);
  const std::string record = example_of(std::vector<NamedTensor>{{"u", u("AB")}, {"i", Tensor::scalar<bool>(true)}});
  for (const std::int64_t row : {-1, 3})
    EXPECT_EQ(error_of([&] { parser.parse(record, kPlace, row, batch); }).code(), Code::internal);
}

TEST(Example, LengthsMayVary) {
  const std::string list = field(3, field(1, "\1\2\3\4\5\6"));
  const auto of_shape = [](Shape shape) { return ExampleFeature{.name = "x", .dtype = DType::i64, .shape = shape}; };
  EXPECT_EQ(parsed({of_shape({kUnknown})}, example_with(list)), "i64[6] = 1 2 3 4 5 6");
  EXPECT_EQ(parsed({of_shape({kUnknown, 3})}, example_with(list)), "i64[2,3] = 1 2 3 4 5 6");
  EXPECT_EQ(parsed({of_shape({kUnknown, 3})}, example_with(field(3, ""))), "i64[0,3] =");
  EXPECT_EQ(parsed({of_shape({kUnknown, 0})}, example_with(field(3, ""))), "i64[0,0] =");
  EXPECT_EQ(
      refused({of_shape({kUnknown, 4})}, example_with(list)),
      "data_loss: /data: record at byte 42: feature 'x' has 6 values, expected a multiple of 4 values in int64_list "
      "(i64[?,4])");
  EXPECT_THAT(refused({of_shape({kUnknown, 0})}, example_with(list)), HasSubstr("feature 'x' has 6 values, expected "));
  EXPECT_EQ(
      parsed({{.name = "x", .dtype = DType::u8, .shape = {kUnknown, 2}}}, example_with(field(1, field(1, "ABCD")))),
      "u8[2,2] = 65 66 67 68");
}

TEST(Example, ErrorsSayWhichFeatureAndWhatWasExpected) {
  const std::string where = "data_loss: /data: record at byte 42: feature 'x' ";
  EXPECT_EQ(refused({kFloats}, ""), where + "is missing and has no default, expected 2 values in float_list (f32[2])");
  EXPECT_EQ(refused({kFloats}, example_with(field(3, "\x08\x05"))),
            where + "has int64_list, expected 2 values in float_list (f32[2])");
  EXPECT_EQ(refused({kIntegers}, example_with(field(3, "\x08\x05"))),
            where + "has 1 values, expected 3 values in int64_list (i64[3])");
  EXPECT_EQ(refused({kIntegers}, example_with(field(3, field(1, "\1\2\3\4")))),
            where + "has 4 values, expected 3 values in int64_list (i64[3])");
  const ExampleFeature bytes{.name = "x", .dtype = DType::u8, .shape = {2}};
  EXPECT_EQ(refused({bytes}, example_with(field(1, field(1, "ABC")))),
            where + "has 3 bytes, expected one value of 2 bytes in bytes_list (u8[2])");
  EXPECT_EQ(refused({bytes}, example_with(field(1, field(1, "A") + field(1, "B")))),
            where + "has 2 values, expected one value of 2 bytes in bytes_list (u8[2])");
}

TEST(Example, MalformedRecordsAreRefusedWithTheByte) {
  const std::string where = "data_loss: /data: record at byte 42: not a tf.train.Example: at byte ";
  const auto list = [](const std::string& integers) { return example_with(field(3, field(1, integers))); };
  EXPECT_EQ(refused({kFloats},
                    "\x0a\x05"
                    "abc"),
            where + "0 of its data: a field of 5 bytes, but 3 follow");
  EXPECT_EQ(refused({kFloats}, "\x0a\xff"), where + "1 of its data: a number is cut");
  EXPECT_EQ(refused({kFloats}, std::string("\0\0", 2)), where + "0 of its data: no field has this number");
  EXPECT_EQ(refused({kFloats}, "\x0b"), where + "0 of its data: neither number, bytes nor message");
  EXPECT_EQ(refused({kFloats}, std::string("\x0a") + std::string(11, '\xff')),
            where + "1 of its data: a number has more than 10 bytes");
  EXPECT_EQ(refused({kFloats}, example_with(field(2, field(1, "abcde")))),
            where + "13 of its data: 5 bytes are not floats of 4 each");
  EXPECT_EQ(refused({kIntegers}, list("\1\2\3\xff")), where + "13 of its data: the last number of a list is cut");
  EXPECT_EQ(refused({kIntegers}, list("\1\2" + std::string(10, '\xff') + "\1")),
            where + "15 of its data: a number has more than 10 bytes");
  // 2^60 bytes.
  EXPECT_EQ(refused({kFloats}, "\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x10"),
            where + "0 of its data: a field of 1152921504606846976 bytes, but 0 follow");
}

// Records are read in full or refused; sanitizers see reads beyond them.
TEST(Example, EveryCutAndFlippedBitIsReadOrRefused) {
  const std::string whole = bytes_of(kOfTensorFlow);
  const ExampleParser parser(infer_example(whole, kPlace));
  const auto is_read_or_refused = [&](const std::string& bytes) {
    const Error error = error_of([&] { parser.parse(bytes, kPlace); });
    if (!error.ok()) {
      EXPECT_EQ(error.code(), Code::data_loss);
      EXPECT_THAT(error.message(), StartsWith("/data: record at byte 42: "));
    }
    return error.ok();
  };
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_FALSE(is_read_or_refused(whole.substr(0, bytes)));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    is_read_or_refused(bytes);
  }
}

TEST(Example, FeaturesThatCannotBeAreRefused) {
  const auto no_parser = [](ExampleFeature feature) { return error_of([&] { ExampleParser({feature}); }).to_string(); };
  EXPECT_EQ(no_parser({.name = "x", .dtype = DType::f64}),
            "invalid_argument: feature 'x': an Example has f32, i64, string or u8, but not f64: cast it in the graph");
  EXPECT_EQ(no_parser({.name = "x", .shape = {2, kUnknown}}),
            "invalid_argument: feature 'x': only the leading dimension may be unknown, not [2,?]");
  EXPECT_EQ(no_parser({.name = "x", .shape = {2}, .otherwise = Tensor::vector<float>({1})}),
            "invalid_argument: feature 'x': its default is f32[1], but must be f32[2]");
  EXPECT_THAT(no_parser({.name = "x", .otherwise = Tensor::scalar<std::int64_t>(1)}),
              HasSubstr("its default is i64[], but must be f32[]"));
  EXPECT_THAT(no_parser({.name = "x", .shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}}),
              StartsWith("invalid_argument: "));
  EXPECT_THAT(no_parser({.name = "x", .shape = Shape::unknown_rank()}), StartsWith("invalid_argument: "));
  EXPECT_THAT(error_of([&] { ExampleParser({kFloats, kFloats}); }).to_string(), StartsWith("invalid_argument: "));
}

TEST(Example, InfersNothingFromWhatHasNoNameOrList) {
  const std::string record =
      field(1, entry("", field(3, "\x08\x05")) + entry("none", "") + entry("x", field(3, "\x08\x05")));
  const auto features = infer_example(record, kPlace);
  ASSERT_EQ(features.size(), 1u);
  EXPECT_EQ(features[0].name, "x");
  EXPECT_EQ(features[0].shape, Shape{});
}

const std::vector<ExampleSparseFeature> kMatrix = {
    {.name = "m", .index_features = {"row", "column"}, .value_feature = "v", .dtype = DType::f32, .shape = {3, 4}}};

std::string sparse_record(std::initializer_list<std::int64_t> rows, std::initializer_list<std::int64_t> columns,
                          std::initializer_list<float> values) {
  return example_of(std::vector<NamedTensor>{{"row", Tensor::vector<std::int64_t>(rows)},
                                             {"column", Tensor::vector<std::int64_t>(columns)},
                                             {"v", Tensor::vector<float>(values)}});
}

TEST(Example, SparseFeaturesAreThreeComponentsInRowMajorOrder) {
  const ExampleParser parser({{.name = "row", .dtype = DType::i64, .shape = {kUnknown}}}, kMatrix);
  EXPECT_EQ(to_string(parser.schema()), "row i64[?], m.indices i64[?,2], m.values f32[?], m.dense_shape i64[2]");
  EXPECT_EQ(text_of(parser.parse(sparse_record({0, 1, 2}, {3, 0, 1}, {5, 6, 7}), kPlace)),
            "i64[3] = 0 1 2; i64[3,2] = 0 3 1 0 2 1; f32[3] = 5 6 7; i64[2] = 3 4");
  EXPECT_EQ(text_of(parser.parse(sparse_record({2, 0, 2}, {3, 1, 0}, {5, 6, 7}), kPlace)),
            "i64[3] = 2 0 2; i64[3,2] = 0 1 2 0 2 3; f32[3] = 6 7 5; i64[2] = 3 4");
}

TEST(Example, ListsOfASparseFeatureMayBeSharedAndMissing) {
  const std::vector<ExampleSparseFeature> features = {
      {.name = "a", .index_features = {"i"}, .value_feature = "v", .shape = {9}},
      {.name = "b", .index_features = {"i"}, .value_feature = "w", .dtype = DType::string, .shape = {5}}};
  const std::string record = example_of(std::vector<NamedTensor>{{"i", Tensor::vector<std::int64_t>({4, 1})},
                                                                 {"v", Tensor::vector<float>({1, 2})},
                                                                 {"w", Tensor::vector<std::string>({"x", "y"})}});
  EXPECT_EQ(text_of(ExampleParser({}, features).parse(record, kPlace)),
            "i64[2,1] = 1 4; f32[2] = 2 1; i64[1] = 9; i64[2,1] = 1 4; string[2] = y x; i64[1] = 5");
  EXPECT_EQ(text_of(ExampleParser({}, kMatrix).parse("", kPlace)), "i64[0,2] =; f32[0] =; i64[2] = 3 4");
}

TEST(Example, SparseFeaturesThatAreNoneAreRefused) {
  const auto refused = [](const std::string& record) {
    return error_of([&] { ExampleParser({}, kMatrix).parse(record, kPlace); }).to_string();
  };
  const std::string begin = "data_loss: /data: record at byte 42: sparse feature 'm' ";
  EXPECT_EQ(refused(sparse_record({0, 1}, {0}, {1, 2})), begin + "has 2 values in 'v', but 1 indices in 'column'");
  EXPECT_EQ(refused(sparse_record({0, 3}, {0, 0}, {1, 2})), begin + "has the index 3 in 'row', whose dimension is 3");
  EXPECT_EQ(refused(sparse_record({0, 0}, {0, -1}, {1, 2})),
            begin + "has the index -1 in 'column', whose dimension is 4");
  EXPECT_EQ(refused(sparse_record({1, 0, 1}, {2, 0, 2}, {1, 2, 3})), begin + "has two values at [1, 2]");
  EXPECT_EQ(refused(sparse_record({0, 1}, {0, 1}, {})), begin + "has 0 values in 'v', but 2 indices in 'row'");
  const auto wrong = [](ExampleSparseFeature feature) {
    return error_of([&] { ExampleParser({}, {feature}); }).to_string();
  };
  EXPECT_THAT(wrong({.name = "m", .index_features = {"row"}, .value_feature = "v", .shape = {3, 4}}),
              HasSubstr("1 index features for the shape [3,4], which needs one for each dimension"));
  EXPECT_THAT(wrong({.name = "m", .index_features = {"row"}, .value_feature = "v", .shape = {kUnknown}}),
              HasSubstr("1 index features for the shape [?]"));
  EXPECT_THAT(wrong({.name = "m", .index_features = {"row"}, .value_feature = "v", .dtype = DType::u8, .shape = {3}}),
              HasSubstr("not u8"));
}

}  // namespace
}  // namespace troupe::testing
