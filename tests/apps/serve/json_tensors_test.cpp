// Bodies of TensorFlow Serving's REST API: exact values, every error with its place.
#include "apps/serve/json_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "apps/serve/json_values.hpp"
#include "tests/error_of.hpp"
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

using Specs = std::map<std::string, ModelSignature::TensorSpec>;

PredictBody parsed(const std::string& body, const Specs& inputs, const JsonLimits& limits = {}) {
  ModelSignature signature;
  signature.inputs = inputs;
  return parse_predict(
      body, [&](const std::string&) -> const ModelSignature& { return signature; }, limits);
}

Specs one(DType dtype, const Shape& shape = Shape::unknown_rank()) { return {{"x", {.dtype = dtype, .shape = shape}}}; }

Specs two() { return {{"x", {.dtype = DType::f32}}, {"y", {.dtype = DType::i64}}}; }

Tensor x_of(const std::string& body, DType dtype, const Shape& shape = Shape::unknown_rank()) {
  return parsed(body, one(dtype, shape)).inputs.at("x");
}

void expect_same(const Tensor& got, const Tensor& wanted) {
  EXPECT_TRUE(bitwise_equal(got, wanted)) << got.to_string() << " in place of " << wanted.to_string();
}

std::string message_of(const std::string& body, const Specs& inputs) {
  const Error error = error_of([&] { parsed(body, inputs); });
  EXPECT_EQ(error.code(), Code::invalid_argument) << body;
  return error.message();
}

TEST(PredictBodies, RowsAreDimension0) {
  const PredictBody body = parsed(R"({"signature_name": "s", "instances": [[1, 2.5], [-3e2, 4]]})", one(DType::f32));
  EXPECT_EQ(body.signature, "s");
  EXPECT_EQ(body.format, PredictBody::Format::rows);
  expect_same(body.inputs.at("x"), Tensor::of<float>(Shape{2, 2}, {1, 2.5, -300, 4}));
  expect_same(x_of(R"({"instances":[1,2,3]})", DType::i32), Tensor::vector<std::int32_t>({1, 2, 3}));
  expect_same(x_of(R"({"instances":[{"x":[1]},{"x":[2]}]})", DType::i32),
              Tensor::of<std::int32_t>(Shape{2, 1}, {1, 2}));
}

TEST(PredictBodies, RowsOfSeveralInputsAreObjects) {
  const PredictBody body = parsed(R"({"instances": [{"x": [1, 2], "y": 7}, {"y": 8, "x": [3, 4]}]})", two());
  expect_same(body.inputs.at("x"), Tensor::of<float>(Shape{2, 2}, {1, 2, 3, 4}));
  expect_same(body.inputs.at("y"), Tensor::vector<std::int64_t>({7, 8}));
}

TEST(PredictBodies, ColumnsAreWholeTensors) {
  const PredictBody body = parsed(R"({"inputs": {"y": 7, "x": [[[1]], [[2]]]}, "signature_name": "late"})", two());
  EXPECT_EQ(body.signature, "late");
  EXPECT_EQ(body.format, PredictBody::Format::columns);
  expect_same(body.inputs.at("x"), Tensor::of<float>(Shape{2, 1, 1}, {1, 2}));
  expect_same(body.inputs.at("y"), Tensor::scalar<std::int64_t>(7));
  expect_same(x_of(R"({"inputs": 2.5})", DType::f64), Tensor::scalar(2.5));
  expect_same(x_of(R"({"inputs": {"x": [true, false]}})", DType::boolean), Tensor::vector<bool>({true, false}));
}

TEST(PredictBodies, EmptyListsTakeTheRestOfTheirShapeFromTheSignature) {
  EXPECT_EQ(x_of(R"({"inputs": []})", DType::f32, Shape{kUnknown, 784}).shape(), (Shape{0, 784}));
  EXPECT_EQ(x_of(R"({"inputs": [[],[]]})", DType::f32).shape(), (Shape{2, 0}));
}

TEST(PredictBodies, EveryDtypeHoldsItsExtremes) {
  expect_same(x_of(R"({"inputs":[-128,127]})", DType::i8), Tensor::vector<std::int8_t>({-128, 127}));
  expect_same(x_of(R"({"inputs":[0,255]})", DType::u8), Tensor::vector<std::uint8_t>({0, 255}));
  expect_same(x_of(R"({"inputs":[-32768,32767]})", DType::i16), Tensor::vector<std::int16_t>({-32768, 32767}));
  expect_same(x_of(R"({"inputs":[0,65535]})", DType::u16), Tensor::vector<std::uint16_t>({0, 65535}));
  expect_same(x_of(R"({"inputs":[-2147483648]})", DType::i32),
              Tensor::vector<std::int32_t>({std::numeric_limits<std::int32_t>::min()}));
  expect_same(x_of(R"({"inputs":[4294967295]})", DType::u32), Tensor::vector<std::uint32_t>({4294967295U}));
  expect_same(x_of(R"({"inputs":[-9223372036854775808,9223372036854775807]})", DType::i64),
              Tensor::vector<std::int64_t>(
                  {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}));
  expect_same(x_of(R"({"inputs":[18446744073709551615]})", DType::u64),
              Tensor::vector<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()}));
  expect_same(x_of(R"({"inputs":[1.5,65504]})", DType::f16), Tensor::vector<Half>({Half(1.5F), Half(65504.F)}));
  expect_same(x_of(R"({"inputs":[1.5,-3e38]})", DType::bf16),
              Tensor::vector<BFloat16>({BFloat16(1.5F), BFloat16(-3e38F)}));
  expect_same(x_of(R"({"inputs":["a\u00e4\n", ""]})", DType::string), Tensor::vector<std::string>({"a\xc3\xa4\n", ""}));
}

TEST(PredictBodies, TokensOfNoNumberAreRead) {
  const Tensor x = x_of(R"({"instances":[NaN, Infinity, -Infinity ,Inf,-Inf]})", DType::f32);
  const auto values = x.values<float>();
  EXPECT_TRUE(std::isnan(values[0]));
  for (int i : {1, 3}) EXPECT_EQ(values[static_cast<std::size_t>(i)], std::numeric_limits<float>::infinity());
  for (int i : {2, 4}) EXPECT_EQ(values[static_cast<std::size_t>(i)], -std::numeric_limits<float>::infinity());
  EXPECT_THAT(message_of(R"({"instances":[NaN]})", one(DType::i32)),
              HasSubstr("instances[0]: NaN, where an i32 is expected"));
}

TEST(PredictBodies, BytesAreBase64) {
  const Tensor row = Tensor::vector<std::string>({std::string("\0\xff", 2), "plain", ""});
  expect_same(x_of(R"({"instances":[{"b64":"AP8="},"plain",{"b64":""}]})", DType::string), row);
  expect_same(x_of(R"({"inputs":[{"b64":"AP8"},"plain",""]})", DType::string), row);
  expect_same(x_of(R"({"inputs":{"b64":"AP8="}})", DType::string), Tensor::scalar(std::string("\0\xff", 2)));
  expect_same(x_of(R"({"instances":[{"x":{"b64":"AP8="}},{"x":"plain"},{"x":""}]})", DType::string), row);
  EXPECT_THAT(message_of(R"({"instances":[{"b64":"A*8="}]})", one(DType::string)), HasSubstr("instances[0].b64"));
  EXPECT_THAT(message_of(R"({"inputs":[{"b64":"A"}]})", one(DType::string)), HasSubstr("inputs[0]: an object"));
  EXPECT_THAT(message_of(R"({"instances":[{"b64":"AP8="}]})", one(DType::f32)),
              HasSubstr("instances[0]: an object, where an f32 is expected"));
  std::string text;
  for (const char* bytes : {"", "a", "ab", "abc", "abcd"}) {
    text.clear();
    append_base64(text, bytes);
    EXPECT_EQ(decode_base64(text), bytes);
  }
  EXPECT_EQ(text, "YWJjZA==");
}

TEST(PredictBodies, ErrorsNameThePlaceAndWhatIsExpected) {
  struct Case {
    const char* body;
    const char* message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {R"({"instances":[[1,2],[3]]})", "instances[1]: a list of 1, where lists before it have 2"},
           {R"({"instances":[[1,2],3]})", "instances[1]: a value, where a list is expected"},
           {R"({"instances":[1,[2]]})", "instances[1]: a list, where an f32 is expected"},
           {R"({"instances":[[],1]})", "instances[1]: a value, where a list is expected"},
           {R"({"instances":[[1,"abc"]]})", "instances[0][1]: \"abc\", where an f32 is expected"},
           {R"({"instances":[[1,null]]})", "instances[0][1]: null, where an f32 is expected"},
           {R"({"instances":[1,1e39]})", "instances[1]: 1e39 is out of the range of f32"},
           {R"({"instances":[{"x":[0,true]}]})", "instances[0].x[1]: true, where an f32 is expected"},
           {R"({"instances":[{"x":1},2]})", "instances[1]: rows are values or objects, but not both"},
           {R"({"instances":[{"z":1}]})", "instances[0] has 'z', which is no input of the signature; those are: x"},
           {R"({"instances":[{"x":1,"x":1}]})", "instances[0] has 'x' twice"},
           {R"({"instances":[{}]})", "instances[0] lacks the input 'x'"},
           {R"({"instances":[]})", "instances: no rows"},
           {R"({"instances":1})", "instances: 1, where a list of rows is expected"},
           {R"({"inputs":{}})", "inputs lacks the input 'x'"},
           {R"({"inputs":{"x":[1,{}]}})", "inputs.x[1]: an object, where an f32 is expected"},
           {R"({"inputs":1,"instances":[1]})", "both 'instances' (rows) and 'inputs' (columns)"},
           {R"({"inputs":1,"inputs":1})", "'inputs' twice"},
           {R"({"signature_name":"s"})", "neither 'instances' (rows) nor 'inputs' (columns)"},
           {R"({"signature_name":1,"inputs":1})", "signature_name: 1, where a string is expected"},
           {R"({"inputs":[[[[[[[[[1]]]]]]]]]})", "lists are nested deeper than 8"},
           {R"([1])", "not an object of JSON"},
           {"", "the body is empty"},
           {R"({"inputs":1} {})", "something follows"},
           {R"({"inputs":1} 2)", "the body: broken JSON"},
           {R"({"inputs":[1,2)", "the body: broken JSON"},
           {"{\"inputs\":[\"\xff\"]}", "the body: broken JSON"}})
    EXPECT_THAT(message_of(c.body, one(DType::f32)), HasSubstr(c.message)) << c.body;
  EXPECT_THAT(message_of(R"({"instances":[1]})", two()), HasSubstr("an object with the inputs is expected: x, y"));
  EXPECT_THAT(message_of(R"({"inputs":[1]})", two()), HasSubstr("an object with the inputs is expected: x, y"));
  EXPECT_THAT(message_of(R"({"inputs":[1.0]})", one(DType::i32)), HasSubstr("inputs[0]: 1.0, where an i32"));
  EXPECT_THAT(message_of(R"({"inputs":[128]})", one(DType::i8)), HasSubstr("inputs[0]: 128 is out of the range of i8"));
  EXPECT_THAT(message_of(R"({"inputs":[-1]})", one(DType::u64)), HasSubstr("inputs[0]: -1, where a u64"));
  EXPECT_THAT(message_of(R"({"inputs":[65520]})", one(DType::f16)), HasSubstr("out of the range of f16"));
  EXPECT_THAT(message_of(R"({"inputs":[1]})", one(DType::boolean)), HasSubstr("inputs[0]: 1, where a bool"));
}

TEST(PredictBodies, ElementsAreLimitedOverAllInputs) {
  const std::string body = R"({"inputs": {"x": [1, 2], "y": [3, 4]}})";
  parsed(body, two(), {.most_elements = 4});
  const Error error = error_of([&] { parsed(body, two(), {.most_elements = 3}); });
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_THAT(error.message(), HasSubstr("inputs.y[1]: more elements than a request may have"));
}

TEST(PredictBodies, WhatIsSkippedMayBeNestedDeeply) {
  const std::string body = "{\"other\":" + std::string(100000, '[') + std::string(100000, ']') + ",\"inputs\":1}";
  EXPECT_EQ(x_of(body, DType::f32).item<float>(), 1);
}

// The number that is read is that of the C library, rounded to the dtype; what is printed reads back the same.
TEST(PredictBodies, RandomFloatsAreExact) {
  std::mt19937_64 random(1);
  std::vector<double> doubles;
  std::vector<float> floats;
  while (doubles.size() < 2000) {
    const auto d = std::bit_cast<double>(random());
    const auto f = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(d) || !std::isfinite(f)) continue;
    doubles.push_back(d);
    floats.push_back(f);
  }
  const Tensor f64 = Tensor::of<double>(Shape{40, 50}, doubles), f32 = Tensor::of<float>(Shape{2000}, floats);
  std::string text = "{\"inputs\":[";
  for (std::size_t i = 0; i < doubles.size(); ++i) {
    char number[64];
    std::snprintf(number, sizeof number, "%s%.17g", i > 0 ? "," : "", doubles[i]);
    text += number;
  }
  expect_same(x_of(text + "]}", DType::f64), f64.reshaped(Shape{2000}));
  for (const Tensor& tensor : {f64, f32}) {
    std::string printed = print_predictions({{"y", tensor}}, PredictBody::Format::columns);
    printed.replace(printed.find("outputs"), 7, "inputs");
    expect_same(x_of(printed, tensor.dtype()), tensor);
  }
}

TEST(Predictions, TheOnlyOutputStandsWithoutItsName) {
  const Tensor y = Tensor::of<float>(Shape{2, 2}, {1, 2.5, -1e30F, 0.1F});
  EXPECT_EQ(print_predictions({{"y", y}}, PredictBody::Format::rows), R"({"predictions":[[1.0,2.5],[-1e+30,0.1]]})");
  EXPECT_EQ(print_predictions({{"y", y}}, PredictBody::Format::columns), R"({"outputs":[[1.0,2.5],[-1e+30,0.1]]})");
  const Tensor z = Tensor::vector<std::int64_t>({7, -8});
  EXPECT_EQ(print_predictions({{"y", y}, {"z", z}}, PredictBody::Format::rows),
            R"({"predictions":[{"y":[1.0,2.5],"z":7},{"y":[-1e+30,0.1],"z":-8}]})");
  EXPECT_EQ(print_predictions({{"y", y}, {"z", z}}, PredictBody::Format::columns),
            R"({"outputs":{"y":[[1.0,2.5],[-1e+30,0.1]],"z":[7,-8]}})");
}

TEST(Predictions, EveryDtypeIsWritten) {
  const auto text = [](const Tensor& tensor) {
    const std::string out = print_predictions({{"y", tensor}}, PredictBody::Format::columns);
    return out.substr(11, out.size() - 12);
  };
  EXPECT_EQ(text(Tensor::vector<double>({0.1, 1e300, -0.0})), "[0.1,1e+300,-0.0]");
  EXPECT_EQ(text(Tensor::vector<float>({std::nanf(""), INFINITY, -INFINITY})), "[NaN,Infinity,-Infinity]");
  EXPECT_EQ(text(Tensor::vector<Half>({Half(1.5F)})), "[1.5]");
  EXPECT_EQ(text(Tensor::vector<BFloat16>({BFloat16(-2.F)})), "[-2.0]");
  EXPECT_EQ(text(Tensor::vector<bool>({true, false})), "[true,false]");
  EXPECT_EQ(text(Tensor::vector<std::uint8_t>({0, 255})), "[0,255]");
  EXPECT_EQ(text(Tensor::vector<std::int8_t>({-128})), "[-128]");
  EXPECT_EQ(text(Tensor::vector<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()})), "[18446744073709551615]");
  EXPECT_EQ(text(Tensor::scalar<std::int16_t>(5)), "5");
  EXPECT_EQ(text(Tensor(DType::f32, Shape{2, 0})), "[[],[]]");
  EXPECT_EQ(text(Tensor::vector<std::string>({"a\"\\\n\x01", "\xff"})),
            "[\"a\\\"\\\\\\u000a\\u0001\",{\"b64\":\"/w==\"}]");
}

TEST(Predictions, OutputsNamedBytesAreBase64) {
  EXPECT_EQ(print_predictions({{"image_bytes", Tensor::vector<std::string>({"abc"})}}, PredictBody::Format::rows),
            R"({"predictions":[{"b64":"YWJj"}]})");
}

TEST(Predictions, RowsMustBeInCommon) {
  const auto refused = [](const std::map<std::string, Tensor>& outputs) {
    return error_of([&] { print_predictions(outputs, PredictBody::Format::rows); });
  };
  const Tensor three = Tensor::vector<float>({1, 2, 3}), two = Tensor::vector<float>({1, 2});
  EXPECT_THAT(refused({{"a", three}, {"b", two}}).message(), HasSubstr("[3] ('a') and [2] ('b')"));
  EXPECT_EQ(refused({{"a", Tensor::scalar(1.F)}}).code(), Code::invalid_argument);
  EXPECT_EQ(refused({}).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe
