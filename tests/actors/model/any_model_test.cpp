#include "troupe/actors/model/any_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/passes/freeze.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

// Signatures "sum" and "predict" of x and a variable.
AnyModel small_model() {
  AnyModel out{.graph = std::make_shared<Graph>()};
  Graph& g = *out.graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown}, "x");
  const Output w = variable(g, {.name = "w", .initial_value = constant(g, 0.0f)}).read();
  const Output product = mul(x, w, "product"), total = sum(product, {}, {.name = "total"});
  out.signatures["predict"] = {{{"x", {"x", DType::f32, x.shape()}}},
                               {{"y", {"product", DType::f32, product.shape()}}}};
  out.signatures["sum"] = {{{"x", {"x", DType::f32, x.shape()}}}, {{"total", {"total", DType::f32, total.shape()}}}};
  out.values["w"] = Tensor::scalar(3.0f);
  return out;
}

TEST(AnyModel, EachFormatIsReadAsTheSame) {
  const TemporaryDirectory directory;
  const AnyModel model = small_model();
  for (const ModelFormat format : {ModelFormat::troupe, ModelFormat::tensorflow, ModelFormat::onnx}) {
    const std::string path = directory.file(std::string(name(format)));
    write_any_model(posix_file_system(), path, format, model, "predict");
    EXPECT_EQ(format_of_model(posix_file_system(), path), format);
    const AnyModel read = read_any_model(posix_file_system(), path);
    EXPECT_EQ(read.format, format);
    EXPECT_EQ(read.signatures.size(), format == ModelFormat::onnx ? 1u : 2u);
    const ModelSignature& predict = read.signatures.at(signature_named(read, ""));
    EXPECT_EQ(predict.inputs.at("x").dtype, DType::f32);
    EXPECT_EQ(predict.inputs.at("x").shape, Shape{kUnknown});
    ASSERT_EQ(read.values.size(), 1u);
    EXPECT_EQ(read.values.begin()->second.item<float>(), 3.0f);
    const std::unique_ptr<Graph> frozen = freeze(*read.graph, read.values);
    const Output x = frozen->output(predict.inputs.at("x").tensor), y = frozen->output(predict.outputs.at("y").tensor);
    const Tensor found = Session(*frozen).run({{x, Tensor::vector<float>({1, 2})}}, y);
    EXPECT_TRUE(bitwise_equal(found, Tensor::vector<float>({3, 6}))) << found.to_string();
  }
}

TEST(AnyModel, WhatIsNoModelIsSaid) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& path) {
    return error_of([&] { read_any_model(posix_file_system(), directory.file(path)); });
  };
  EXPECT_EQ(error("missing").code(), Code::not_found);
  std::filesystem::create_directory(directory.path() / "empty");
  EXPECT_THAT(error("empty").message(), HasSubstr("metadata.json"));
  directory.write("text", "text");
  EXPECT_EQ(error("text").code(), Code::data_loss);
  save_model(posix_file_system(), directory.file("values"), {.values = {{"w", Tensor::scalar(1.0f)}}});
  EXPECT_EQ(error("values").code(), Code::failed_precondition);
}

TEST(AnyModel, ASignatureIsChosenByNameOrByHabit) {
  AnyModel model = small_model();
  EXPECT_EQ(signature_named(model, "sum"), "sum");
  EXPECT_EQ(signature_named(model, ""), "predict");
  EXPECT_THAT(error_of([&] { signature_named(model, "train"); }).message(), HasSubstr("'predict', 'sum'"));
  model.signatures["mean"] = model.signatures.extract("predict").mapped();
  EXPECT_THAT(error_of([&] { signature_named(model, ""); }).message(), HasSubstr("must be named: 'mean', 'sum'"));
  model.signatures.erase("mean");
  EXPECT_EQ(signature_named(model, ""), "sum");
}

}  // namespace
}  // namespace troupe::testing
