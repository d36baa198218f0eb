// Tensors of gRPC messages: exact values of all dtypes, and messages that lie about their sizes.
#include "apps/serve/tensor_proto.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "apps/serve/inference_json.hpp"
#include "apps/serve/proto/inference.pb.h"
#include "apps/serve/proto/tensorflow_tensors.pb.h"
#include "tests/error_of.hpp"

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

template <class Message>
Message parsed(const std::string& text) {
  Message out;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &out)) << text;
  return out;
}

Tensor read(const std::string& text, std::uint64_t repeated = 1024) {
  return from_tensor_proto(parsed<::tensorflow::TensorProto>(text), "x", repeated);
}

Tensor infer(const std::string& text) {
  return from_infer_request(parsed<::inference::ModelInferRequest>(text)).at("x");
}

void expect_same(const Tensor& got, const Tensor& wanted) {
  EXPECT_TRUE(bitwise_equal(got, wanted)) << got.to_string() << " in place of " << wanted.to_string();
}

void expect_refused(const std::string& text, Code code, const std::string& message) {
  const Error error = error_of([&] { read(text); });
  EXPECT_EQ(error.code(), code) << text << ": " << error.message();
  EXPECT_THAT(error.message(), HasSubstr(message));
}

std::vector<Tensor> one_of_each() {
  return {Tensor::vector<float>({1.5F, -2}),
          Tensor::vector<double>({0.1, -3}),
          Tensor::vector<Half>({Half(0.5F), Half(-4)}),
          Tensor::vector<BFloat16>({BFloat16(0.5F), BFloat16(-4)}),
          Tensor::vector<std::int8_t>({-128, 127}),
          Tensor::vector<std::uint8_t>({0, 255}),
          Tensor::vector<std::int16_t>({-32768, 32767}),
          Tensor::vector<std::uint16_t>({0, 65535}),
          Tensor::vector<std::int32_t>({INT32_MIN, INT32_MAX}),
          Tensor::vector<std::uint32_t>({0, UINT32_MAX}),
          Tensor::vector<std::int64_t>({INT64_MIN, INT64_MAX}),
          Tensor::vector<std::uint64_t>({0, UINT64_MAX}),
          Tensor::vector<bool>({true, false}),
          Tensor::vector<std::string>({"", std::string("a\0\xff", 3)})};
}

TEST(TensorProtos, EachDtypeComesBackAsItWas) {
  for (const Tensor& tensor : one_of_each()) {
    ::tensorflow::TensorProto proto;
    to_tensor_proto(tensor, proto);
    std::uint64_t none = 0;
    expect_same(from_tensor_proto(proto, "x", none), tensor);
  }
  expect_same(read("dtype: DT_FLOAT tensor_shape { } tensor_content: '\\000\\000\\300\\077'"), Tensor::scalar(1.5F));
  expect_same(read("dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 3 } }"),
              Tensor(DType::f32, Shape{0, 3}));
}

TEST(TensorProtos, ListsOfEachDtypeAndTheLastValueRepeats) {
  const auto of = [](const std::string& type, const std::string& list, int size = 3) {
    return read("dtype: " + type + " tensor_shape { dim { size: " + std::to_string(size) + " } } " + list);
  };
  expect_same(of("DT_FLOAT", "float_val: [1.5, -2]"), Tensor::vector<float>({1.5F, -2, -2}));
  expect_same(of("DT_DOUBLE", "double_val: 0.1"), Tensor::vector<double>({0.1, 0.1, 0.1}));
  expect_same(of("DT_HALF", "half_val: [14336, 50176]"), Tensor::vector<Half>({Half(0.5F), Half(-4), Half(-4)}));
  expect_same(of("DT_BFLOAT16", "half_val: 16128"),
              Tensor::vector<BFloat16>({BFloat16(0.5F), BFloat16(0.5F), BFloat16(0.5F)}));
  expect_same(of("DT_INT8", "int_val: [-128, 127]"), Tensor::vector<std::int8_t>({-128, 127, 127}));
  expect_same(of("DT_UINT8", "int_val: [0, 255]"), Tensor::vector<std::uint8_t>({0, 255, 255}));
  expect_same(of("DT_INT16", "int_val: [-32768, 32767]"), Tensor::vector<std::int16_t>({-32768, 32767, 32767}));
  expect_same(of("DT_UINT16", "int_val: [0, 65535]"), Tensor::vector<std::uint16_t>({0, 65535, 65535}));
  expect_same(of("DT_INT32", "int_val: [1, 2, 3]"), Tensor::vector<std::int32_t>({1, 2, 3}));
  expect_same(of("DT_UINT32", "uint32_val: 4294967295", 1), Tensor::vector<std::uint32_t>({UINT32_MAX}));
  expect_same(of("DT_INT64", "int64_val: [-5, 6]"), Tensor::vector<std::int64_t>({-5, 6, 6}));
  expect_same(of("DT_UINT64", "uint64_val: 7"), Tensor::vector<std::uint64_t>({7, 7, 7}));
  expect_same(of("DT_BOOL", "bool_val: [false, true]"), Tensor::vector<bool>({false, true, true}));
  expect_same(of("DT_STRING", "string_val: ['a', 'bc']"), Tensor::vector<std::string>({"a", "bc", "bc"}));
  expect_same(of("DT_INT32", ""), Tensor::vector<std::int32_t>({0, 0, 0}));
}

TEST(TensorProtos, MessagesThatDoNotFitAreRefused) {
  expect_refused("dtype: DT_COMPLEX64", Code::unimplemented, "x: elements of type 8 (DT_COMPLEX64)");
  expect_refused("dtype: 99", Code::unimplemented, "99 (unknown)");
  expect_refused("dtype: DT_FLOAT tensor_shape { unknown_rank: true }", Code::invalid_argument, "unknown rank");
  expect_refused("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }", Code::invalid_argument, "dimension 0 is -1");
  std::string dims;
  for (int i = 0; i < kMaxRank + 1; ++i) dims += "dim { size: 1 } ";
  expect_refused("dtype: DT_FLOAT tensor_shape { " + dims + "}", Code::invalid_argument, "9 dimensions");
  expect_refused("dtype: DT_FLOAT tensor_shape { dim { size: 4611686018427387904 } dim { size: 4 } }",
                 Code::invalid_argument, "x: ");
  expect_refused("dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: 'abc'", Code::invalid_argument,
                 "has 3 bytes, where f32[2] needs 8");
  expect_refused("dtype: DT_BOOL tensor_shape { dim { size: 1 } } tensor_content: '\\002'", Code::invalid_argument,
                 "is 2");
  expect_refused("dtype: DT_STRING tensor_shape { dim { size: 1 } } tensor_content: 'a'", Code::invalid_argument,
                 "string_val");
  expect_refused("dtype: DT_FLOAT float_val: [1, 2]", Code::invalid_argument, "2 values");
  expect_refused("dtype: DT_UINT8 int_val: 256", Code::invalid_argument, "256 does not fit an element of u8");
  expect_refused("dtype: DT_HALF half_val: -1", Code::invalid_argument, "-1 does not fit");
}

TEST(TensorProtos, AValueForManyIsLimited) {
  expect_refused("dtype: DT_FLOAT tensor_shape { dim { size: 1073741824 } } float_val: 1", Code::resource_exhausted,
                 "needs 4294967296 bytes, where 1024 are left");
  // Also by the text of strings, not only by their number.
  expect_refused("dtype: DT_STRING tensor_shape { dim { size: 10 } } string_val: '" + std::string(200, 'a') + "'",
                 Code::resource_exhausted, "needs 2120 bytes");
  // A budget is for all tensors of a request.
  const auto proto = parsed<::tensorflow::TensorProto>("dtype: DT_FLOAT tensor_shape { dim { size: 200 } }");
  std::uint64_t budget = 1024;
  from_tensor_proto(proto, "x", budget);
  EXPECT_EQ(budget, 224U);
  EXPECT_EQ(error_of([&] { from_tensor_proto(proto, "y", budget); }).code(), Code::resource_exhausted);
}

TEST(InferTensors, RawContentsOfEachDtype) {
  for (const Tensor& tensor : one_of_each()) {
    ::inference::ModelInferResponse response;
    add_infer_output("x", tensor, response);
    ::inference::ModelInferRequest request;
    auto& input = *request.add_inputs();
    input.set_name("x");
    input.set_datatype(response.outputs(0).datatype());
    *input.mutable_shape() = response.outputs(0).shape();
    request.add_raw_input_contents(response.raw_output_contents(0));
    expect_same(from_infer_request(request).at("x"), tensor);
  }
  expect_same(infer("inputs { name: 'x' datatype: 'BYTES' shape: 2 } "
                    "raw_input_contents: '\\002\\000\\000\\000ab\\000\\000\\000\\000'"),
              Tensor::vector<std::string>({"ab", ""}));
}

TEST(InferTensors, TypedContentsOfEachDatatype) {
  const auto of = [](const std::string& type, const std::string& contents) {
    return infer("inputs { name: 'x' datatype: '" + type + "' shape: 2 contents { " + contents + " } }");
  };
  expect_same(of("BOOL", "bool_contents: [true, false]"), Tensor::vector<bool>({true, false}));
  expect_same(of("INT8", "int_contents: [-128, 127]"), Tensor::vector<std::int8_t>({-128, 127}));
  expect_same(of("INT16", "int_contents: [-3, 4]"), Tensor::vector<std::int16_t>({-3, 4}));
  expect_same(of("INT32", "int_contents: [-3, 4]"), Tensor::vector<std::int32_t>({-3, 4}));
  expect_same(of("INT64", "int64_contents: [-3, 4]"), Tensor::vector<std::int64_t>({-3, 4}));
  expect_same(of("UINT8", "uint_contents: [0, 255]"), Tensor::vector<std::uint8_t>({0, 255}));
  expect_same(of("UINT16", "uint_contents: [3, 4]"), Tensor::vector<std::uint16_t>({3, 4}));
  expect_same(of("UINT32", "uint_contents: [3, 4294967295]"), Tensor::vector<std::uint32_t>({3, UINT32_MAX}));
  expect_same(of("UINT64", "uint64_contents: [3, 4]"), Tensor::vector<std::uint64_t>({3, 4}));
  expect_same(of("FP32", "fp32_contents: [1.5, -2]"), Tensor::vector<float>({1.5F, -2}));
  expect_same(of("FP64", "fp64_contents: [0.1, -2]"), Tensor::vector<double>({0.1, -2}));
  expect_same(of("BYTES", "bytes_contents: ['a', '']"), Tensor::vector<std::string>({"a", ""}));
}

TEST(InferTensors, RequestsThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& text, const std::string& message) {
    const Error error = error_of([&] { infer(text); });
    EXPECT_EQ(error.code(), Code::invalid_argument) << text;
    EXPECT_THAT(error.message(), HasSubstr(message));
  };
  const std::string x = "inputs { name: 'x' datatype: 'FP32' shape: 2 ";
  refused(x + "contents { fp32_contents: 1 } }", "fp32_contents has 1 elements, where f32[2] needs 2");
  refused(x + "contents { fp64_contents: [1, 2] } }", "fp32_contents has 0 elements");
  refused(x + "} raw_input_contents: 'abc'", "inputs[0] 'x': 3 bytes");
  refused(x + "} raw_input_contents: 'a' raw_input_contents: 'b'", "2 of them, where 1 inputs");
  refused(x + "contents { } } raw_input_contents: 'abcdefgh'", "contents beside raw_input_contents");
  refused(x + "contents { fp32_contents: [1, 2] } } " + x + "contents { fp32_contents: [1, 2] } }", "given twice");
  refused("inputs { name: 'x' datatype: 'FP8' shape: 2 }", "'FP8' is no datatype");
  refused("inputs { name: 'x' datatype: 'FP16' shape: 2 contents { } }", "FP16 has no typed contents");
  refused("inputs { name: 'x' datatype: 'UINT8' shape: 1 contents { uint_contents: 256 } }", "256 does not fit");
  refused("inputs { name: 'x' datatype: 'FP32' shape: -2 }", "dimension 0 is -2");
  refused("inputs { name: 'x' datatype: 'BYTES' shape: 1 } raw_input_contents: '\\377\\000\\000\\000a'",
          "ends within a string");
  refused("inputs { name: 'x' datatype: 'FP32' shape: [4611686018427387904, 4] contents { } }", "x");
}

}  // namespace
}  // namespace troupe
