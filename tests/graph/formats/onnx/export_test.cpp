// Graphs written as ONNX models: read back, and run by onnxruntime where it is installed (build/python).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "tests/error_of.hpp"
#include "tests/graph/formats/onnx/canonical_text.hpp"
#include "tests/graph/formats/onnx/example_models.hpp"
#include "tests/graph/formats/onnx/model_maker.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe {
namespace {

using testing::error_of;
using testing::ExampleModel;
using ::testing::HasSubstr;

namespace pb = troupe::onnx;
namespace fs = std::filesystem;

const std::vector<ExampleModel>& examples() {
  static const std::vector<ExampleModel> all = testing::example_models();
  return all;
}

pb::Model parsed(const std::string& bytes) {
  pb::Model model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

std::map<std::string, int> counts(const pb::Graph& graph) {
  std::map<std::string, int> out;
  for (const pb::Node& node : graph.node()) ++out[node.op_type()];
  return out;
}

std::vector<Tensor> run(const OnnxModel& model, const std::vector<Tensor>& inputs) {
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(model.inputs.at(i).output, inputs[i]);
  Outputs fetches;
  for (const OnnxValue& output : model.outputs) fetches.push_back(output.output);
  return Session(*model.graph).run(feeds, fetches);
}

void expect_close(const Tensor& found, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(found.dtype(), wanted.dtype()) << what;
  ASSERT_EQ(found.shape(), wanted.shape()) << what;
  if (found.dtype() != DType::f32) {
    EXPECT_TRUE(bitwise_equal(found, wanted)) << what << ": " << found.to_string() << " " << wanted.to_string();
    return;
  }
  for (std::int64_t i = 0; i < found.num_elements(); ++i) {
    const float a = found.data<float>()[i], b = wanted.data<float>()[i];
    ASSERT_NEAR(a, b, 1e-5 + 1e-4 * std::abs(b)) << what << " element " << i;
  }
}

TEST(OnnxExport, ModelsReadBackComputeTheSame) {
  for (const ExampleModel& example : examples()) {
    SCOPED_TRACE(example.name);
    const std::string bytes = to_onnx(*example.graph, example.what);
    EXPECT_TRUE(onnx_info(bytes).unknown_ops.empty());
    const OnnxModel model = parse_onnx(bytes, {.weights = OnnxImportOptions::Weights::constants});
    const std::vector<Tensor> found = run(model, example.inputs);
    ASSERT_EQ(found.size(), example.outputs.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(model.outputs[i].name, example.what.outputs[i].output.name());
      expect_close(found[i], example.outputs[i], model.outputs[i].name);
    }
  }
}

OnnxModel read(const std::string& bytes) {
  return parse_onnx(bytes, {.weights = OnnxImportOptions::Weights::constants});
}
std::string text_of(const std::string& bytes) {
  const OnnxModel model = read(bytes);
  return testing::canonical_text(*model.graph, model.inputs, model.outputs, {});
}
std::string written_again(const std::string& bytes) {
  const OnnxModel model = read(bytes);
  return to_onnx(*model.graph, {.inputs = model.inputs, .outputs = model.outputs});
}

// But for those with ops that docs/guide/onnx.md names.
TEST(OnnxExport, ModelsReadBackAreTheSameGraph) {
  for (const ExampleModel& example : examples()) {
    SCOPED_TRACE(example.name);
    const std::string wanted =
        testing::canonical_text(*example.graph, example.what.inputs, example.what.outputs, example.what.variables);
    const std::string found = text_of(to_onnx(*example.graph, example.what));
    if (example.comes_back) {
      EXPECT_EQ(found, wanted);
    } else {
      EXPECT_NE(found, wanted) << "say that it comes back";
    }
  }
}

TEST(OnnxExport, WeightsReadBackAreVariablesWithTheirNames) {
  for (const ExampleModel& example : examples()) {
    if (!example.comes_back) continue;
    SCOPED_TRACE(example.name);
    const OnnxModel model = parse_onnx(to_onnx(*example.graph, example.what));
    const Output init = initializer(*model.graph);
    Session session(*model.graph);
    session.run_targets({init});
    std::map<std::string, Tensor> values;
    for (const std::string& name : model.variables)
      values[name] = session.run(find_variable(*model.graph, name).read());
    EXPECT_EQ(testing::canonical_text(*model.graph, model.inputs, model.outputs, values),
              text_of(to_onnx(*example.graph, example.what)));
    for (const auto& [name, value] : example.what.variables)
      EXPECT_TRUE(values.contains(name) && bitwise_equal(values[name], value)) << name;
  }
}

// A graph of what ONNX has, as what was read is, comes back in any case.
TEST(OnnxExport, GraphsOfModelsComeBack) {
  for (const ExampleModel& example : examples()) {
    SCOPED_TRACE(example.name);
    const std::string bytes = to_onnx(*example.graph, example.what), again = written_again(bytes);
    if (example.comes_back) {
      EXPECT_EQ(parsed(again).DebugString(), parsed(bytes).DebugString());
      EXPECT_TRUE(again == bytes);
    }
    EXPECT_EQ(text_of(written_again(again)), text_of(again));
  }
}

TEST(OnnxExport, OnnxruntimeComputesTheSame) {
  const char* given = std::getenv("TROUPE_ONNX_PYTHON");
  const std::string python = given ? given : testing::source_file("build/python/bin/python3");
  const std::string script = testing::source_file("tests/graph/formats/onnx/run_models.py");
  if (!fs::exists(python) || std::system((python + " " + script + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no onnxruntime in build/python";
  const testing::TemporaryDirectory directory;
  std::string command = python + " " + script;
  for (const ExampleModel& example : examples()) {
    const fs::path folder = directory.path() / example.name, data = folder / "test_data_set_0";
    fs::create_directories(data);
    export_onnx((folder / "model.onnx").string(), *example.graph, example.what);
    const auto write = [&](const char* prefix, const std::vector<Tensor>& values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        directory.write(fmt::format("{}/test_data_set_0/{}_{}.pb", example.name, prefix, i),
                        to_onnx_value(values[i], "", {}));
    };
    write("input", example.inputs);
    write("output", example.outputs);
    command += " " + folder.string();
  }
  const std::string out = directory.file("out");
  EXPECT_EQ(std::system((command + " >" + out + " 2>&1").c_str()), 0) << testing::content_of(out);
}

TEST(OnnxExport, ImagesAreTransposedOnceAtEachEnd) {
  for (const ExampleModel& example : examples()) {
    const auto ops = counts(parsed(to_onnx(*example.graph, example.what)).graph());
    if (example.name == "resnet50") {
      // The global mean leaves [n, c]: nothing to transpose behind it.
      EXPECT_EQ(ops.at("Transpose"), 1);
      EXPECT_EQ(ops.at("Conv"), 53);
      EXPECT_EQ(ops.at("BatchNormalization"), 53);
    }
    if (example.name == "cnn") {
      EXPECT_EQ(ops.at("Transpose"), 2);
    }
  }
}

TEST(OnnxExport, OpsThatOnnxLacksAreFunctionsOfTheModel) {
  Graph g;
  const Output q = placeholder(g, DType::f32, Shape{kUnknown, 2, 5, 4}, "q");
  const Output k = placeholder(g, DType::f32, Shape{kUnknown, 2, 5, 4}, "k"), v = relu(k);
  const Output first = attention(q, k, v), second = attention(first, k, v);
  const Output causal = attention(second, k, v, {.causal = true});
  OnnxExport what;
  what.inputs = {{"", q, {}}, {"", k, {}}};
  what.outputs = {{"", causal, {}}};
  const pb::Model model = parsed(to_onnx(g, what));
  ASSERT_EQ(model.functions_size(), 2);  // one for both that are not causal
  EXPECT_EQ(model.functions(0).name(), "Attention");
  EXPECT_EQ(model.functions(1).name(), "Attention_1");
  EXPECT_EQ(model.functions(1).domain(), "ai.troupe");
  EXPECT_EQ(model.opset_import(1).domain(), "ai.troupe");
  ASSERT_EQ(model.graph().node_size(), 4);
  EXPECT_EQ(model.graph().node(2).op_type(), "Attention");
  EXPECT_EQ(model.graph().node(3).op_type(), "Attention_1");
  EXPECT_EQ(model.graph().node(3).output(0), causal.name());
}

// As other runtimes do it, and we with an attribute of a later version.
TEST(OnnxExport, BodiesOfFunctionsComputeTheSame) {
  for (const ExampleModel& example : examples()) {
    const pb::Model written = parsed(to_onnx(*example.graph, example.what));
    if (written.functions_size() == 0) continue;
    for (const bool renamed : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", example.name, renamed ? "another domain" : "another version"));
      pb::Model model = written;
      if (renamed) model.mutable_opset_import(1)->set_domain("other");
      for (pb::Function& function : *model.mutable_functions())
        renamed ? function.set_domain("other") : function.add_attribute("new");
      for (pb::Node& node : *model.mutable_graph()->mutable_node())
        if (node.domain() == "ai.troupe") renamed ? node.set_domain("other") : node.add_attribute()->set_name("new");
      const std::vector<Tensor> found = run(read(model.SerializeAsString()), example.inputs);
      for (std::size_t i = 0; i < found.size(); ++i)
        expect_close(found[i], example.outputs[i], example.what.outputs[i].output.name());
    }
  }
}

TEST(OnnxExport, TheOpsetIsLaterWhereAnOpNeedsIt) {
  Graph g;
  const Output x = placeholder(g, DType::i64, Shape{2}, "x"), axes = placeholder(g, DType::i64, Shape{1}, "axes");
  const auto opset_of = [&](Output y) {
    return parsed(to_onnx(g, {.inputs = {{"", x, {}}, {"", axes, {}}}, .outputs = {{"", y, {}}}})).opset_import(0);
  };
  EXPECT_EQ(opset_of(max(x, {0})).version(), 17);
  EXPECT_EQ(opset_of(bitwise_not(x)).version(), 18);
  EXPECT_EQ(opset_of(max(x, axes)).version(), 18);
  EXPECT_EQ(opset_of(pad(x, {1}, {1}, {.mode = PadMode::wrap})).version(), 19);
}

TEST(OnnxExport, NamesAreKept) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2}, "x");
  const VariableRef w = variable(g, {.name = "layer/w", .shape = Shape{2, 3}});
  const Output h = matmul(x, w.read(), {.name = "hidden"}), y = relu(h, "y");
  OnnxExport what;
  what.inputs = {{"", x, {}}};
  what.outputs = {{"result", y, {}}, {"", h, {}}, {"again", y, {}}};
  what.variables["layer/w"] = Tensor::zeros(DType::f32, Shape{2, 3});
  const pb::Model model = parsed(to_onnx(g, what));
  EXPECT_EQ(model.opset_import(0).version(), 17);
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_EQ(model.graph().input(0).name(), "x");
  EXPECT_EQ(model.graph().initializer(0).name(), "layer/w");
  ASSERT_EQ(model.graph().node_size(), 3);
  EXPECT_EQ(model.graph().node(0).output(0), "hidden");
  EXPECT_EQ(model.graph().node(1).output(0), "result");
  EXPECT_EQ(model.graph().node(2).op_type(), "Identity");
  EXPECT_EQ(model.graph().output(2).name(), "again");
}

TEST(OnnxExport, AllThatOnnxCannotExpressIsListed) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x");
  const Output a = truncated_normal(g, Shape{2}, 0, 1, {.name = "noise"});
  const Output b = truncated_normal(g, Shape{2}, 0, 1, {.name = "more"});
  OnnxExport what;
  what.inputs = {{"", x, {}}};
  what.outputs = {{"", add(add(x, a), b), {}}};
  const Error error = error_of([&] { to_onnx(g, what); });
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_EQ(error.message(), "ONNX cannot express: TruncatedNormal 'noise'; TruncatedNormal 'more'");
}

TEST(OnnxExport, MistakesOfTheSignatureAreNamed) {
  Graph g, other;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x"), y = placeholder(g, DType::f32, Shape{2}, "y");
  const Output sum = add(x, y), w = variable(g, {.name = "w", .shape = Shape{2}}).read();
  const auto message = [&](OnnxExport what) { return error_of([&] { to_onnx(g, what); }).message(); };
  EXPECT_EQ(message({.inputs = {{"", x, {}}}, .outputs = {{"", sum, {}}}}),
            "placeholder 'y' is needed, but is no input of the model");
  EXPECT_THAT(message({.outputs = {{"", w, {}}}}), HasSubstr("variable 'w' has no value"));
  EXPECT_THAT(message({.outputs = {{"z", constant(other, 1.0f), {}}}}), HasSubstr("output 'z' is not a tensor of"));
  EXPECT_THAT(message({.inputs = {{"a", x, {}}, {"a", y, {}}}, .outputs = {{"", sum, {}}}}),
              HasSubstr("two values are named 'a'"));
}

TEST(OnnxExport, LargeTensorsGoToASecondFile) {
  const testing::TemporaryDirectory directory;
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{1, 300}, "x");
  const Output w = constant(g, testing::random_floats(Shape{300, 2}, 1), "w"),
               b = constant(g, Tensor::vector<float>({1, 2}), "b");
  OnnxExport what;
  what.inputs = {{"", x, {}}};
  what.outputs = {{"", add(matmul(x, w), b), {}}};
  what.external_above = 1000;
  const std::string path = directory.file("m.onnx");
  export_onnx(path, g, what);
  EXPECT_EQ(fs::file_size(path + ".data"), 2400u);
  EXPECT_LT(fs::file_size(path), 1000u);
  const OnnxModel model = import_onnx(path);
  EXPECT_EQ(model.variables, (std::vector<std::string>{"w", "b"}));
  EXPECT_THAT(error_of([&] { to_onnx(g, what); }).message(), HasSubstr("export it into a file"));
}

}  // namespace
}  // namespace troupe
