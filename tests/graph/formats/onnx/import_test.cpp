// Models made by hand, and damaged ones. Debian's models are run by tests/tools/onnx_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "messages/proto/onnx.pb.h"
#include "tests/error_of.hpp"
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

namespace pb = troupe::onnx;

// A model y = Relu(x w + b), changed by `change`.
std::string model_with(const std::function<void(pb::Model&)>& change = nullptr) {
  pb::Model model;
  model.set_ir_version(8);
  model.set_producer_name("a test");
  pb::OperatorSetId& id = *model.add_opset_import();
  id.set_version(17);
  pb::Graph& graph = *model.mutable_graph();
  const auto value = [](pb::ValueInfo& info, const std::string& name, std::initializer_list<int> dims) {
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(pb::Tensor::FLOAT);
    for (const int d : dims) {
      auto& dim = *type.mutable_shape()->add_dim();
      d < 0 ? dim.set_dim_param("batch") : dim.set_dim_value(d);
    }
  };
  value(*graph.add_input(), "x", {-1, 2});
  value(*graph.add_output(), "y", {-1, 3});
  pb::Tensor& w = *graph.add_initializer();
  w.set_name("w");
  w.set_data_type(pb::Tensor::FLOAT);
  w.add_dims(2);
  w.add_dims(3);
  for (int i = 0; i < 6; ++i) w.add_float_data(static_cast<float>(i));
  const auto node = [&](const std::string& op, std::vector<std::string> inputs, const std::string& output) {
    pb::Node& made = *graph.add_node();
    made.set_op_type(op);
    made.set_name(op + "_1");
    for (const std::string& input : inputs) made.add_input(input);
    made.add_output(output);
  };
  node("MatMul", {"x", "w"}, "product");
  node("Relu", {"product"}, "y");
  if (change) change(model);
  return model.SerializeAsString();
}

std::string refused(const std::function<void(pb::Model&)>& change) {
  return error_of([&] { parse_onnx(model_with(change)); }).message();
}

TEST(OnnxImport, NamesInputsOutputsAndVariables) {
  const OnnxModel model = parse_onnx(model_with());
  ASSERT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.inputs[0].name, "x");
  EXPECT_EQ(model.inputs[0].output.shape(), (Shape{kUnknown, 2}));
  ASSERT_EQ(model.outputs.size(), 1u);
  EXPECT_EQ(model.outputs[0].output.shape(), (Shape{kUnknown, 3}));
  EXPECT_EQ(model.variables, (std::vector<std::string>{"w"}));
  EXPECT_FALSE(variables(*model.graph)[0].trainable);
  EXPECT_EQ(model.opset, 17);
  EXPECT_EQ(model.producer, "a test");
  EXPECT_TRUE(
      variables(*parse_onnx(model_with(), {.weights = OnnxImportOptions::Weights::trainable}).graph)[0].trainable);
  EXPECT_TRUE(parse_onnx(model_with(), {.weights = OnnxImportOptions::Weights::constants}).variables.empty());
}

TEST(OnnxImport, ListsAllThatIsUnknownAtOnce) {
  const Error error = error_of([] {
    parse_onnx(model_with([](pb::Model& m) {
      m.mutable_graph()->mutable_node(0)->set_op_type("Frobnicate");
      m.mutable_graph()->mutable_node(1)->set_domain("com.example");
    }));
  });
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("Frobnicate: Frobnicate 'MatMul_1'"), HasSubstr("com.example.Relu: Relu 'Relu_1'")));
}

TEST(OnnxImport, MalformedModelsAreRefused) {
  EXPECT_EQ(error_of([] { parse_onnx("no model"); }).code(), Code::data_loss);
  EXPECT_EQ(error_of([] { parse_onnx(""); }).message(), "the model has no graph");
  const std::string whole = model_with();
  for (std::size_t size = 1; size < whole.size(); size += 3)
    EXPECT_TRUE(error_of([&] { parse_onnx(std::string_view(whole).substr(0, size)); })) << size;
  EXPECT_EQ(refused([](pb::Model& m) { m.mutable_graph()->mutable_node(0)->set_input(0, "y"); }),
            "MatMul 'MatMul_1': input 'y' is not the output of an earlier node");
  EXPECT_EQ(refused([](pb::Model& m) { m.mutable_graph()->mutable_node(1)->set_output(0, "product"); }),
            "Relu 'Relu_1': 'product' is the output of two nodes");
  EXPECT_EQ(refused([](pb::Model& m) { m.mutable_graph()->mutable_output(0)->set_name("z"); }),
            "output 'z' is not the output of any node");
  EXPECT_EQ(refused([](pb::Model& m) { m.mutable_graph()->mutable_initializer(0)->set_dims(0, 1ll << 60); }),
            "tensor 'w' needs 3458764513820540928 elements, but holds 6");
  EXPECT_EQ(refused([](pb::Model& m) { m.mutable_graph()->mutable_initializer(0)->set_data_type(14); }),
            "elements of ONNX type 14 (COMPLEX64) are not supported");
}

TEST(OnnxImport, ExternalDataStayInTheFolderOfTheModel) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "troupe_onnx_external";
  fs::create_directories(folder);
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::ofstream(folder / "w.bin", std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 24);
  const auto at = [](const std::string& file) {
    return model_with([&](pb::Model& m) {
      pb::Tensor& w = *m.mutable_graph()->mutable_initializer(0);
      w.clear_float_data();
      w.set_data_location(pb::Tensor::EXTERNAL);
      pb::StringPair& entry = *w.add_external_data();
      entry.set_key("location");
      entry.set_value(file);
    });
  };
  EXPECT_EQ(parse_onnx(at("w.bin"), {}, folder.string()).variables.size(), 1u);
  for (const char* file : {"../w.bin", "/etc/passwd", "a/../../w.bin", ""})
    EXPECT_THAT(error_of([&] { parse_onnx(at(file), {}, folder.string()); }).message(),
                HasSubstr("are not in the folder of the model"))
        << file;
  EXPECT_THAT(error_of([&] { parse_onnx(at("none.bin"), {}, folder.string()); }).message(), HasSubstr("have 0 bytes"));
  EXPECT_THAT(error_of([&] { parse_onnx(at("w.bin")); }).message(), HasSubstr("is in another file"));
  fs::remove_all(folder);
}

TEST(OnnxTensors, AllTypesAreWrittenAndRead) {
  for (const DType dtype : dtypes_of(ElementTypes{})) {
    Tensor value = Tensor::zeros(dtype, Shape{2, 3});
    if (dtype == DType::string)
      value = Tensor::of<std::string>(Shape{2}, {std::string("a\0b", 3), "\xff"});
    else
      for (std::size_t i = 0; i < value.num_bytes(); ++i)
        value.mutable_raw()[i] = static_cast<std::byte>(dtype == DType::boolean ? i % 2 : i * 7 + 1);
    EXPECT_TRUE(bitwise_equal(parse_onnx_value(to_onnx_value(value, "v", {})), value)) << name(dtype);
  }
  const OnnxType list{{OnnxType::List::optional, OnnxType::List::sequence}, DType::i64, Shape{}};
  for (const Tensor& value :
       {make_list({}), make_list({make_list({})}),
        make_list({make_list({Tensor::scalar<std::int64_t>(3), Tensor::scalar<std::int64_t>(4)})})})
    EXPECT_TRUE(bitwise_equal(parse_onnx_value(to_onnx_value(value, "v", list), list), value)) << value.to_string();
}

TEST(OnnxTensors, NarrowTypesMayBeInWiderFields) {
  pb::Tensor tensor;
  tensor.set_data_type(pb::Tensor::BFLOAT16);
  tensor.add_dims(2);
  tensor.add_int32_data(0x3f80);
  tensor.add_int32_data(0xc000);
  const Tensor bf16 = from_onnx_tensor(tensor);
  EXPECT_EQ(static_cast<float>(bf16.data<BFloat16>()[0]), 1.0f);
  EXPECT_EQ(static_cast<float>(bf16.data<BFloat16>()[1]), -2.0f);
  tensor.set_data_type(pb::Tensor::BOOL);
  EXPECT_TRUE(from_onnx_tensor(tensor).data<bool>()[0]);
  tensor.set_data_type(pb::Tensor::UINT32);  // kept as 64 bits, and there are none
  EXPECT_THAT(error_of([&] { from_onnx_tensor(tensor); }).message(), HasSubstr("needs 2 elements, but holds 0"));
}

}  // namespace
}  // namespace troupe
