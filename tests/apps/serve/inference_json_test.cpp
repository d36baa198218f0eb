// Bodies of the Open Inference Protocol: as JSON, and with the binary tensor extension.
#include "apps/serve/inference_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/error_of.hpp"
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

void expect_tensor(const Tensor& got, const Tensor& wanted) {
  EXPECT_TRUE(bitwise_equal(got, wanted)) << got.to_string() << " in place of " << wanted.to_string();
}

std::string refusal(const std::string& body, std::optional<std::size_t> json_bytes = std::nullopt) {
  const Error error = error_of([&] { parse_inference(body, json_bytes); });
  EXPECT_EQ(error.code(), Code::invalid_argument) << body;
  return error.message();
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}

TEST(InferenceBodies, DataIsFlatOrNestedInAnyOrderOfKeys) {
  const InferenceRequest request = parse_inference(
      R"({"id":"7","inputs":[{"name":"a","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]},
          {"data":[[1,2],[3,4]],"datatype":"INT64","parameters":{},"shape":[2,2],"name":"b"},
          {"name":"c","shape":[1],"datatype":"BYTES","data":["text"]}],
          "outputs":[{"name":"y"},{"name":"z","parameters":{"binary_data":true}}]})",
      std::nullopt);
  EXPECT_EQ(request.id, "7");
  expect_tensor(request.inputs.at("a"), Tensor::of<float>(Shape{2, 2}, {1, 2, 3, 4}));
  expect_tensor(request.inputs.at("b"), Tensor::of<std::int64_t>(Shape{2, 2}, {1, 2, 3, 4}));
  expect_tensor(request.inputs.at("c"), Tensor::vector<std::string>({"text"}));
  EXPECT_THAT(request.outputs, ElementsAre("y", "z"));
  EXPECT_FALSE(request.all_binary);
  EXPECT_TRUE(request.binary.at("z"));
}

TEST(InferenceBodies, BinaryTensorsFollowTheJson) {
  const std::string json =
      R"({"inputs":[{"name":"a","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"s","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":11}},)"
      R"({"name":"e","shape":[0,3],"datatype":"INT8","parameters":{"binary_data_size":0}}],)"
      R"("parameters":{"binary_data_output":true}})";
  const std::string body =
      json + bytes_of<float>({1.5F, -2}) + bytes_of<std::uint32_t>({3}) + "abc" + bytes_of<std::uint32_t>({0});
  const InferenceRequest request = parse_inference(body, json.size());
  expect_tensor(request.inputs.at("a"), Tensor::vector<float>({1.5F, -2}));
  expect_tensor(request.inputs.at("s"), Tensor::vector<std::string>({"abc", ""}));
  EXPECT_EQ(request.inputs.at("e").shape(), (Shape{0, 3}));
  EXPECT_TRUE(request.all_binary);
  EXPECT_THAT(refusal(body + "x", json.size()), HasSubstr("1 bytes follow the last binary tensor"));
  EXPECT_THAT(refusal(body.substr(0, body.size() - 1), json.size()), HasSubstr("inputs[1]: 11 bytes of binary data"));
  EXPECT_THAT(refusal(body, body.size() + 1), HasSubstr("Inference-Header-Content-Length"));
}

TEST(InferenceBodies, BinaryTensorsHaveTheSizeOfTheirShape) {
  const auto input = [](const char* datatype, const char* shape, const std::string& bytes) {
    const std::string json = std::string(R"({"inputs":[{"name":"a","shape":)") + shape + R"(,"datatype":")" + datatype +
                             R"(","parameters":{"binary_data_size":)" + std::to_string(bytes.size()) + "}}]}";
    return refusal(json + bytes, json.size());
  };
  EXPECT_THAT(input("FP32", "[2]", "1234567"), HasSubstr("inputs[0]: 7 bytes, where f32 of [2] have 8"));
  EXPECT_THAT(input("BOOL", "[2]", std::string("\1\2")), HasSubstr("a BOOL is a byte 0 or 1"));
  EXPECT_THAT(input("BYTES", "[2]", std::string(4, '\0')), HasSubstr("too few for the lengths of 2 strings"));
  EXPECT_THAT(input("BYTES", "[1]", std::string("\5\0\0\0ab", 6)), HasSubstr("ends within a string"));
  EXPECT_THAT(input("BYTES", "[1]", std::string("\1\0\0\0ab", 6)), HasSubstr("1 bytes follow the last string"));
  EXPECT_THAT(input("BYTES", "[1000000000000]", std::string("\1\0\0\0a", 5)), HasSubstr("too few"));
  EXPECT_THAT(input("FP64", "[4611686018427387904,4]", ""), HasSubstr(""));
}

TEST(InferenceBodies, ErrorsNameThePlaceAndWhatIsExpected) {
  struct Case {
    const char* input;
    const char* message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {R"({"shape":[1],"datatype":"FP32","data":[1]})", "inputs[0] lacks 'name'"},
           {R"({"name":"a","datatype":"FP32","data":[1]})", "inputs[0] lacks 'shape'"},
           {R"({"name":"a","shape":[1],"data":[1]})", "inputs[0] lacks 'datatype'"},
           {R"({"name":"a","shape":[1],"datatype":"FP32"})", "inputs[0] ('a') has no 'data'"},
           {R"({"name":"a","shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":0}})",
            "both 'data' and 'binary_data_size'"},
           {R"({"name":"a","shape":[1],"datatype":"FP99","data":[1]})",
            "inputs[0].datatype: 'FP99', where one of BOOL"},
           {R"({"name":"a","shape":[-1],"datatype":"FP32","data":[1]})", "inputs[0].shape[0]: sizes are integers"},
           {R"({"name":"a","shape":[1,1,1,1,1,1,1,1,1],"datatype":"FP32","data":[1]})", "more than 8 dimensions"},
           {R"({"name":"a","shape":[3],"datatype":"FP32","data":[1,2]})",
            "inputs[0].data: lists of shape [2], where 'a' has the shape [3]"},
           {R"({"name":"a","shape":[2,1],"datatype":"FP32","data":[[1,2]]})", "lists of shape [1,2]"},
           {R"({"name":"a","shape":[1],"datatype":"INT8","data":[300]})", "inputs[0].data[0]: 300 is out of the range"},
           {R"(7)", "inputs[0]: 7, where an object is expected"}})
    EXPECT_THAT(refusal(std::string("{\"inputs\":[") + c.input + "]}"), HasSubstr(c.message)) << c.input;
  EXPECT_THAT(refusal("{}"), HasSubstr("no 'inputs'"));
  EXPECT_THAT(refusal(R"({"inputs":1})"), HasSubstr("inputs: 1, where a list is expected"));
  const std::string a = R"({"name":"a","shape":[1],"datatype":"FP32","data":[1]})";
  EXPECT_THAT(refusal("{\"inputs\":[" + a + "," + a + "]}"), HasSubstr("inputs[1]: the input 'a' is there twice"));
  EXPECT_THAT(refusal(R"({"inputs":[],"outputs":[{}]})"), HasSubstr("outputs[0] lacks 'name'"));
}

TEST(InferenceAnswers, OutputsAreJsonOrBinaryAsAsked) {
  const std::map<std::string, Tensor> outputs = {{"y", Tensor::of<float>(Shape{1, 2}, {1, 2.5})},
                                                 {"z", Tensor::vector<std::string>({"ab"})}};
  const InferenceAnswer json = print_inference("m", 3, {.id = "7"}, outputs);
  EXPECT_EQ(json.body, R"({"model_name":"m","model_version":"3","id":"7","outputs":[)"
                       R"({"name":"y","shape":[1,2],"datatype":"FP32","data":[1.0,2.5]},)"
                       R"({"name":"z","shape":[1],"datatype":"BYTES","data":["ab"]}]})");
  EXPECT_FALSE(json.json_bytes);
  const InferenceAnswer binary = print_inference("m", 3, {.all_binary = true, .binary = {{"y", false}}}, outputs);
  const std::string head = R"({"model_name":"m","model_version":"3","outputs":[)"
                           R"({"name":"y","shape":[1,2],"datatype":"FP32","data":[1.0,2.5]},)"
                           R"({"name":"z","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}}]})";
  EXPECT_EQ(binary.body, head + bytes_of<std::uint32_t>({2}) + "ab");
  EXPECT_EQ(binary.json_bytes, head.size());
}

TEST(InferenceAnswers, TextThatIsNotUtf8IsSentAsBinaryOnly) {
  const std::map<std::string, Tensor> outputs = {{"z", Tensor::vector<std::string>({"\xff"})}};
  EXPECT_THAT(error_of([&] { print_inference("m", 1, {}, outputs); }).message(), HasSubstr("ask for binary data"));
  EXPECT_TRUE(print_inference("m", 1, {.all_binary = true}, outputs).json_bytes);
}

}  // namespace
}  // namespace troupe
