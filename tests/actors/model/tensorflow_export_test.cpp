// Graphs as SavedModels of TensorFlow: TensorFlow, where it is installed (build/python), computes the same of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/error_of.hpp"
#include "tests/graph/formats/onnx/example_models.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/tensorflow_model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/passes/freeze.hpp>
#include <troupe/kernels/readers/tensor_bundle.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

// A model with one signature, and what our session computes of it.
struct ExportedModel {
  std::string name{};
  std::shared_ptr<Graph> graph{};
  TensorflowSignature signature{};
  std::map<std::string, Tensor> inputs{}, outputs{};
  Parameters values{};
  bool comes_back = true;  // we read what we have written
};

void compute(ExportedModel& model) {
  std::uint32_t seed = 10;
  for (const VariableInfo& v : variables(*model.graph)) {
    Tensor value = random_floats(v.shape, ++seed);
    if (v.name.find("variance") != std::string::npos)
      for (float& e : value.mutable_values<float>()) e = e * e + 0.1f;
    model.values[v.name] = std::move(value);
  }
  const std::unique_ptr<Graph> frozen = freeze(*model.graph, model.values);
  Session session(*frozen);
  Feeds feeds;
  for (const auto& [key, value] : model.inputs)
    feeds.emplace_back(frozen->output(model.signature.inputs.at(key).name()), value);
  for (const auto& [key, output] : model.signature.outputs)
    model.outputs[key] = session.run(feeds, frozen->output(output.name()));
}

// The model does not know the first dimension.
ExportedModel exported_layers(std::string name, const Sequential& network, const Tensor& x) {
  ExportedModel out{.name = std::move(name), .graph = std::make_shared<Graph>()};
  Shape fed = x.shape();
  fed.set_dim(0, kUnknown);
  const Output input = placeholder(*out.graph, x.dtype(), fed, "x");
  VariablePool pool;
  LayerContext context{.graph = *out.graph, .variables = pool};
  out.signature = {{{"x", input}}, {{"y", network.apply(context, input)}}};
  out.inputs["x"] = x;
  compute(out);
  return out;
}

Tensor words(const std::vector<std::string>& values) {
  Tensor out(DType::string, Shape{std::ssize(values)});
  std::ranges::copy(values, out.mutable_data<std::string>());
  return out;
}

ExportedModel text_model() {
  return exported_layers("text",
                         Sequential({layers::text_vectorization({"the", "cat", "sat", "dog"}, {.length = 5}),
                                     layers::embedding(6, 4), layers::global_average_pool(), layers::dense(2)}),
                         words({"The CAT, sat!", "", "a dog ate the cat the cat"}));
}
ExportedModel lines_model() {
  return exported_layers(
      "lines",
      Sequential({layers::conv1d(6, 3, Activation::silu, {.strides = {2}, .padding = Padding::same}),
                  layers::batch_norm(), layers::max_pool1d(2), layers::lstm(4, {.return_sequences = true}),
                  layers::gru(3), layers::dense(2, Activation::gelu)}),
      random_floats(Shape{2, 12, 3}, 1));
}
ExportedModel convolutions_model() {
  return exported_layers(
      "convolutions",
      Sequential({layers::depthwise_conv2d(Integers{3, 3}, 2, Activation::relu6),
                  layers::conv2d(6, 3, Activation::relu), layers::batch_norm(), layers::average_pool(2),
                  layers::conv2d_transpose(4, Integers{3, 3}, Activation::leaky_relu), layers::global_average_pool(),
                  layers::dense(3, Activation::softmax)}),
      random_floats(Shape{2, 9, 8, 3}, 1));
}

// Sequences of different lengths, in both directions.
ExportedModel lengths_model() {
  ExportedModel out{.name = "lengths", .graph = std::make_shared<Graph>()};
  Graph& g = *out.graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, kUnknown, 3}, "x");
  const Output lengths = placeholder(g, DType::i64, Shape{kUnknown}, "lengths");
  const auto weight = [&](const Shape& shape, std::uint32_t seed) {
    return variable(g, {.name = "w", .initial_value = constant(g, random_floats(shape, seed))}).read();
  };
  LstmOptions options{.direction = Direction::bidirectional, .batch_major = true, .lengths = lengths};
  options.bias = weight(Shape{2, 32}, 2);
  const LstmOutputs both = lstm(x, weight(Shape{2, 16, 3}, 3), weight(Shape{2, 16, 4}, 4), std::move(options));
  GruOptions back{.direction = Direction::reverse, .batch_major = true, .lengths = lengths};
  back.bias = weight(Shape{1, 30}, 5);
  const RnnOutputs last = gru(x, weight(Shape{1, 15, 3}, 6), weight(Shape{1, 15, 5}, 7), std::move(back));
  out.signature = {{{"x", x}, {"lengths", lengths}},
                   {{"y", both.y}, {"h", both.last_h}, {"c", both.last_c}, {"gru", last.y}, {"state", last.last_h}}};
  out.inputs = {{"x", random_floats(Shape{3, 6, 3}, 8)}, {"lengths", Tensor::vector<std::int64_t>({6, 3, 1})}};
  compute(out);
  return out;
}

// Nodes named as those that a model has beside, or in ways that TensorFlow does not allow; an output that is an input.
ExportedModel names_model() {
  ExportedModel out{.name = "names", .graph = std::make_shared<Graph>()};
  Graph& g = *out.graph;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x"), yes = placeholder(g, DType::boolean, Shape{}, "yes");
  const Output text = placeholder(g, DType::string, Shape{2}, "text");
  Output y = x;
  for (const char* name : {"_w", "node_w"})
    y = y * variable(g, {.name = name, .initial_value = constant(g, random_floats(Shape{2}, 1))}).read();
  y = neg(y + constant(g, 2.0f, "_constant"), "_hidden");
  for (const char* name : {"node_w/Assign", "node_w/Read/ReadVariableOp", "save/Const", "save/SaveV2", "save/RestoreV2",
                           "save/control_dependency", "save/restore_all"})
    y = neg(y, name);
  y = if_else(
      yes, {y}, [](Graph&, const Outputs& v) { return Outputs{v[0] * 3.0}; },
      [](Graph&, const Outputs& v) { return v; }, "_branch")[0];
  const Output at = neg(table_find(text, constant(g, words({"a", "b"}))), "init");
  out.signature = {{{"x", x}, {"yes", yes}, {"text", text}}, {{"y", y}, {"x", x}, {"at", at}}};
  out.inputs = {{"x", random_floats(Shape{2}, 2)}, {"yes", Tensor::scalar(true)}, {"text", words({"b", "c"})}};
  compute(out);
  return out;
}

// Loops that end early, that count, that read rows and collect items, from the first to the last or back.
ExportedModel loops_over_rows(bool reverse) {
  ExportedModel out{.name = reverse ? "back" : "forth", .graph = std::make_shared<Graph>(), .comes_back = !reverse};
  Graph& g = *out.graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 3}, "x"), n = placeholder(g, DType::i64, Shape{}, "n");
  const Outputs doubled = while_loop([&](const Outputs& v) { return less(v[0], constant(g, 50.0f)); },
                                     [](const Outputs& v) {
                                       return Outputs{v[0] * 2.0, v[1] + v[0]};
                                     },
                                     {constant(g, 1.0f), x});
  const Output counted =
      for_loop(n, [](Output i, const Outputs& v) { return Outputs{v[0] + cast(i, DType::f32)}; }, {x})[0];
  out.signature = {{{"x", x}, {"n", n}}, {{"doubled", doubled[0]}, {"sum", doubled[1]}, {"counted", counted}}};
  const auto step = [](const Outputs& state, const Outputs& rows) {
    const Output sum = state[0] * 0.5 + rows[0];
    return Scanned{{sum}, {tanh(sum)}};
  };
  const Scanned scanned = scan(step, {constant(g, random_floats(Shape{3}, 1))}, {x}, {.reverse = reverse});
  out.signature.outputs["rows"] = scanned.ys[0];
  out.signature.outputs["state"] = scanned.state[0];
  out.inputs = {{"x", random_floats(Shape{4, 3}, 2)}, {"n", Tensor::scalar<std::int64_t>(3)}};
  compute(out);
  return out;
}

ExportedModel forth_model() { return loops_over_rows(false); }
ExportedModel back_model() { return loops_over_rows(true); }

// One of the examples of ONNX.
ExportedModel of_example(ExampleModel&& example) {
  ExportedModel out{.name = example.name, .graph = std::move(example.graph), .values = example.what.variables};
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    const std::string key = fmt::format("in_{}", i);
    out.signature.inputs[key] = example.what.inputs[i].output;
    out.inputs[key] = example.inputs[i];
  }
  for (std::size_t i = 0; i < example.outputs.size(); ++i) {
    const std::string key = fmt::format("out_{}", i);
    out.signature.outputs[key] = example.what.outputs[i].output;
    out.outputs[key] = example.outputs[i];
  }
  return out;
}

// Examples that have what TensorFlow's ops cannot express: an op of each.
const std::map<std::string, std::string> kRefused = {{"lstm", "LSTM 'LSTM' (an LSTM with peepholes"},
                                                     {"recurrent", "RNN 'RNN' (activations with bounds (clip)"},
                                                     {"training", "SparseSoftmaxCrossEntropy"},
                                                     {"loops", "ListGet 'ListGet'"},
                                                     {"images", "RoiAlign 'RoiAlign'"},
                                                     {"orders", "SearchSorted"}};

// Those that take TensorFlow long, and have nothing that the others lack.
constexpr const char* kLong = "resnet50";

const std::vector<ExportedModel>& exported_models() {
  static const std::vector<ExportedModel> all = [] {
    std::vector<ExportedModel> out;
    for (ExampleModel& example : example_models())
      if (example.name != kLong) out.push_back(of_example(std::move(example)));
    for (const auto& make :
         {text_model, lines_model, convolutions_model, lengths_model, names_model, forth_model, back_model})
      out.push_back(make());
    return out;
  }();
  return all;
}

TEST(TensorflowExport, TensorflowComputesTheSame) {
  const char* given = std::getenv("TROUPE_TENSORFLOW_PYTHON");
  const std::string python = given ? given : source_file("build/python/bin/python3");
  const std::string script = python + " " + source_file("tests/actors/model/run_tensorflow_models.py");
  if (!std::filesystem::exists(python) || std::system((script + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no TensorFlow in build/python: tools/setup.sh --with-peers";
  const TemporaryDirectory directory;
  std::string command = script;
  for (const ExportedModel& model : exported_models()) {
    if (kRefused.contains(model.name)) continue;
    const std::string path = directory.file(model.name);
    command += " " + path;
    export_tensorflow(posix_file_system(), path, *model.graph, {{"serving_default", model.signature}}, model.values);
    std::vector<NamedTensor> examples;
    for (const auto& [key, value] : model.inputs) examples.push_back({"serving_default/in/" + key, value});
    for (const auto& [key, value] : model.outputs) examples.push_back({"serving_default/out/" + key, value});
    write_tensor_bundle(posix_file_system(), path + ".examples", TensorSource::of(examples));
  }
  const std::string out = directory.file("out");
  EXPECT_EQ(std::system((command + " >" + out + " 2>&1").c_str()), 0) << content_of(out);
}

// What was written is read back, and computes the same.
TEST(TensorflowExport, ModelsComeBack) {
  const TemporaryDirectory directory;
  for (const ExportedModel& model : exported_models()) {
    if (kRefused.contains(model.name) || !model.comes_back) continue;
    SCOPED_TRACE(model.name);
    const std::string path = directory.file(model.name);
    export_tensorflow(posix_file_system(), path, *model.graph, {{"s", model.signature}}, model.values);
    const TensorflowModel back = import_tensorflow(path);
    const TensorflowSignature& signature = back.signatures.at("s");
    const Output initialize = initializer(*back.graph);
    Session session(*back.graph);
    session.run_targets({initialize});
    Feeds feeds;
    for (const auto& [key, value] : model.inputs) feeds.emplace_back(signature.inputs.at(key), value);
    for (const auto& [key, wanted] : model.outputs) {
      const Tensor found = session.run(feeds, signature.outputs.at(key));
      ASSERT_EQ(found.dtype(), wanted.dtype()) << key;
      ASSERT_EQ(found.shape(), wanted.shape()) << key;
      if (found.dtype() != DType::f32) {
        EXPECT_TRUE(bitwise_equal(found, wanted)) << key;
        continue;
      }
      for (std::int64_t i = 0; i < found.num_elements(); ++i)
        ASSERT_NEAR(found.data<float>()[i], wanted.data<float>()[i], 1e-5) << key << " element " << i;
    }
  }
}

TEST(TensorflowExport, WhatCannotBeExpressedIsListedAtOnce) {
  for (const ExportedModel& model : exported_models()) {
    const auto refused = kRefused.find(model.name);
    if (refused == kRefused.end()) continue;
    const Error error = error_of([&] {
      to_tensorflow(*model.graph, {.signatures = {{"s", model.signature}}, .variables = model.values});
    });
    EXPECT_EQ(error.code(), Code::unimplemented) << model.name;
    EXPECT_THAT(error.message(), HasSubstr(refused->second)) << model.name;
    if (model.name == "images") {
      for (const char* other : {"GridSample 'GridSample'", "NonMaxSuppression 'NonMaxSuppression'"})
        EXPECT_THAT(error.message(), HasSubstr(other));
    }
  }
}

TEST(TensorflowExport, WhatTheModelLacksIsNamed) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2}, "x");
  const Output w = variable(g, {.name = "w", .initial_value = constant(g, random_floats(Shape{2, 3}, 1))}).read();
  const Output y = matmul(x, w);
  const auto error = [&](const TensorflowSignature& signature, const Parameters& values) {
    return error_of([&] { to_tensorflow(g, {.signatures = {{"s", signature}}, .variables = values}); }).message();
  };
  const Parameters values = {{"w", random_floats(Shape{2, 3}, 1)}};
  EXPECT_THAT(error({{}, {{"y", y}}}, values), HasSubstr("placeholder 'x' is needed, but is no input"));
  EXPECT_THAT(error({{{"x", x}}, {{"y", y}}}, {}), HasSubstr("variable 'w' has no value"));
  EXPECT_THAT(error({{{"x", x}}, {{"y", y}}}, {{"w", random_floats(Shape{3, 3}, 1)}}),
              HasSubstr("variable 'w' is f32[2,3], but its value is f32[3,3]"));
  Graph other;
  const Output foreign = placeholder(other, DType::f32, Shape{}, "z");
  EXPECT_THAT(error({{{"x", x}}, {{"y", foreign}}}, values), HasSubstr("'y' is not a tensor of the graph"));
  EXPECT_THAT(error_of([&] { to_tensorflow(g, {}); }).message(), HasSubstr("needs a signature"));
}

TEST(TensorflowExport, OnlyAModelIsReplaced) {
  const TemporaryDirectory directory;
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{}, "x");
  const auto save = [&](const std::string& name, const Output& y) {
    export_tensorflow(posix_file_system(), directory.file(name), g, {{"s", {{{"x", x}}, {{"y", y}}}}}, {});
  };
  save("model", neg(x));
  const std::string first = content_of(directory.file("model/saved_model.pb"));
  save("model/", exp(x));
  EXPECT_NE(content_of(directory.file("model/saved_model.pb")), first);
  std::filesystem::create_directories(directory.path() / "mine");
  directory.write("mine/notes.txt", "mine");
  const Error error = error_of([&] { save("mine", neg(x)); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_THAT(error.message(), HasSubstr("notes.txt"));
  EXPECT_EQ(content_of(directory.file("mine/notes.txt")), "mine");
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) entries += !entry.path().empty();
  EXPECT_EQ(entries, 2);  // nothing is left beside them
}

}  // namespace
}  // namespace troupe::testing
