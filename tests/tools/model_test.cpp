// troupe-model as its users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/graph/formats/saved_model/model_text.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Process;

struct Ran {
  int code;
  std::string out, err;
};

nlohmann::json last_event(const std::string& out) {
  std::istringstream lines(out);
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return nlohmann::json::parse(last);
}

// A directory "model" with y = relu(x w + b), and a folder for what the tool writes.
class ModelTool : public ::testing::Test {
 protected:
  void SetUp() override {
    auto graph = std::make_shared<Graph>();
    Graph& g = *graph;
    const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2}, "x");
    const Output w = variable(g, {.name = "w", .initial_value = zeros(Shape{2, 3}, g)}).read();
    const Output b = variable(g, {.name = "b", .initial_value = zeros(Shape{3}, g)}).read();
    const Output y = relu(bias_add(matmul(x, w), b), "y");
    SavedModel model{.graph = graph,
                     .values = {{"w", Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})},
                                {"b", Tensor::vector<float>({0.5f, -100, 0})}}};
    model.signatures["predict"] = {{{"x", {"x", DType::f32, x.shape()}}}, {{"y", {y.name(), DType::f32, y.shape()}}}};
    model.signatures["predict"].inputs["x"].description = "two lengths, in metres";
    save_model(posix_file_system(), path("model"), model);
    save_values(posix_file_system(), path("in.npz"), {{"x", Tensor::of<float>(Shape{1, 2}, {1, 2})}});
  }
  static Output zeros(const Shape& shape, Graph& g) { return constant(g, Tensor::zeros(DType::f32, shape)); }

  std::string path(const std::string& name) const { return directory_.file(name); }
  static Ran tool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), testing::program("troupe-model"));
    Process process(arguments);
    const int code = process.wait();
    return {code, process.out, process.err};
  }
  void expect_runs(const std::string& model) const {
    const Ran ran = tool({"run", path(model), "--inputs", path("in.npz"), "--outputs", path("out.safetensors")});
    EXPECT_EQ(ran.code, 0) << model << ": " << ran.err;
    const Parameters found = load_values(posix_file_system(), path("out.safetensors"));
    ASSERT_TRUE(found.contains("y")) << model;
    EXPECT_TRUE(bitwise_equal(found.at("y"), Tensor::of<float>(Shape{1, 3}, {9.5f, 0, 15})))
        << found.at("y").to_string();
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(ModelTool, SaysWhatAModelIs) {
  const Ran text = tool({"info", path("model")});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* line : {"format      troupe, Troupe ", "parameters  9 in 2 variables, 36 bytes",
                           "input     x f32[?,2]: two lengths, in metres", "output    y f32[?,3]",
                           "work      12 operations", "op          MatMul 1"})
    EXPECT_THAT(text.out, HasSubstr(line));
  const nlohmann::json event = last_event(tool({"info", path("model"), "--json"}).out);
  EXPECT_EQ(event["format"], "troupe");
  EXPECT_EQ(event["bytes"], 36);
  EXPECT_EQ(event["ops"]["Relu"], 1);
  const nlohmann::json& signature = event["signatures"]["predict"];
  EXPECT_EQ(signature["inputs"]["x"]["shape"], nlohmann::json::parse("[null, 2]"));
  EXPECT_EQ(signature["operations"], 12);
}

TEST_F(ModelTool, ConvertsBetweenAllFormats) {
  expect_runs("model");
  const std::vector<std::vector<std::string>> conversions = {
      {"model", "model.onnx"},   {"model", "served", "--to", "tensorflow"},
      {"model.onnx", "of_onnx"}, {"served", "of_tensorflow"},
      {"served", "again.onnx"},  {"model.onnx", "served_onnx", "--to", "tensorflow"}};
  for (const auto& conversion : conversions) {
    std::vector<std::string> arguments{"convert", path(conversion[0]), path(conversion[1]), "--json"};
    arguments.insert(arguments.end(), conversion.begin() + 2, conversion.end());
    const Ran ran = tool(arguments);
    EXPECT_EQ(ran.code, 0) << conversion[1] << ": " << ran.err;
    EXPECT_EQ(last_event(ran.out)["same"], true) << ran.out;
    expect_runs(conversion[1]);
  }
  EXPECT_THAT(tool({"convert", path("model"), path("other")}).err, HasSubstr("say which with --to"));
  EXPECT_THAT(tool({"convert", path("model"), path("served"), "--to", "tensorflow"}).out,
              HasSubstr("computes the same"));
}

// Attributes of ONNX are f32.
TEST_F(ModelTool, AConversionThatComputesSomethingElseFails) {
  auto graph = std::make_shared<Graph>();
  const Output x = placeholder(*graph, DType::f64, Shape{kUnknown, 8}, "x"), y = leaky_relu(x, 0.1, "y");
  SavedModel model{.graph = graph};
  model.signatures["predict"] = {{{"x", {"x", DType::f64, x.shape()}}}, {{"y", {"y", DType::f64, y.shape()}}}};
  save_model(posix_file_system(), path("wide"), model);
  const Ran exact = tool({"convert", path("wide"), path("wide.onnx"), "--tolerance", "1e-15"});
  EXPECT_EQ(exact.code, 1) << exact.err;
  EXPECT_THAT(exact.out, HasSubstr("it computes something else"));
  EXPECT_EQ(tool({"convert", path("wide"), path("wide.onnx")}).code, 0);
}

TEST_F(ModelTool, AConversionThatIsRefusedLeavesNothing) {
  auto graph = std::make_shared<Graph>();
  const Output y = random_uniform(*graph, Shape{2});
  SavedModel model{.graph = graph};
  model.signatures["predict"] = {{}, {{"y", {y.name(), DType::f32, y.shape()}}}};
  save_model(posix_file_system(), path("random"), model);
  const Ran refused = tool({"convert", path("random"), path("random.tf"), "--to", "tensorflow"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("TensorFlow's ops cannot express: RandomUniform"));
  EXPECT_FALSE(std::filesystem::exists(path("random.tf")));
}

TEST_F(ModelTool, OptimizesForInference) {
  const Ran ran = tool({"optimize", path("model"), path("fast")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("fuse_bias"));
  EXPECT_THAT(ran.out, HasSubstr("FusedMatMul 'y'"));
  expect_runs("fast");
  const nlohmann::json event = last_event(tool({"info", path("fast"), "--json"}).out);
  EXPECT_EQ(event["variables"], 0);
  EXPECT_FALSE(event["ops"].contains("MatMul"));
}

TEST_F(ModelTool, MeasuresLatencyAndThroughput) {
  const Ran ran = tool({"bench", path("model"), "--seconds", "0.01", "--batch", "4", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const nlohmann::json event = last_event(ran.out);
  EXPECT_EQ(event["batch"], 4);
  EXPECT_GT(event["examples_per_s"], 0);
  EXPECT_LE(event["p50_s"], event["p99_s"]);
}

TEST_F(ModelTool, NamesTheInputThatIsWrong) {
  const auto error_with = [&](const Parameters& inputs) {
    save_values(posix_file_system(), path("wrong.npz"), inputs);
    const Ran ran = tool({"run", path("model"), "--inputs", path("wrong.npz")});
    EXPECT_EQ(ran.code, 1);
    return ran.err;
  };
  const Tensor x = Tensor::of<float>(Shape{1, 2}, {1, 2});
  EXPECT_THAT(error_with({{"z", x}}), HasSubstr("wrong.npz' has no 'x': signature 'predict' takes x f32[?,2]"));
  EXPECT_THAT(error_with({{"x", x}, {"z", x}}), HasSubstr("has 'z', which is no input"));
  EXPECT_THAT(error_with({{"x", Tensor::of<float>(Shape{1, 3}, {1, 2, 3})}}),
              HasSubstr("'x' is f32[1,3], but must be f32[?,2]"));
  EXPECT_THAT(tool({"run", path("model")}).err, HasSubstr("pass --inputs"));
  EXPECT_THAT(tool({"run", path("model"), "--signature", "train"}).err,
              HasSubstr("no signature 'train', but 'predict'"));
}

TEST_F(ModelTool, ChecksListAllThatIsMissing) {
  const Ran whole = tool({"check", path("model")});
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, HasSubstr("it runs"));
  std::filesystem::create_directories(directory_.path() / "unknown");
  const std::string nodes = testing::node_text("Foo", "a", {"x"}) + testing::node_text("Bar", "b", {"a:y:0"});
  directory_.write("unknown/saved_model.pb", testing::model_of(nodes, "b:y:0").SerializeAsString());
  const Ran unknown = tool({"check", path("unknown")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.out, HasSubstr("Bar: b; Foo: a"));
  std::string values = testing::content_of(path("model/values.safetensors"));
  values.back() = static_cast<char>(values.back() ^ 1);
  directory_.write("model/values.safetensors", values);
  const Ran damaged = tool({"check", path("model"), "--json"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_EQ(last_event(damaged.out)["runs"], false);
  EXPECT_EQ(tool({"check", path("missing")}).code, 1);
}

TEST_F(ModelTool, WrongUsageIsSaid) {
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{}, "no command"},
           {{"show"}, "unknown command 'show'"},
           {{"info"}, "info takes one model"},
           {{"convert", "a"}, "convert takes two models"},
           {{"ops", "a"}, "ops takes no model"},
           {{"test"}, "test takes at least one folder"},
           {{"check", "a", "--again"}, "check does not take --again"},
           {{"info", "a", "--to", "onnx"}, "info does not take --to"},
           {{"bench", "a", "--cluster", "c.json"}, "bench does not take --cluster"}}) {
    const Ran ran = tool(arguments);
    EXPECT_EQ(ran.code, 2) << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
}

TEST_F(ModelTool, PublishesVersionsAndDecidesUponThem) {
  const std::string versions = path("served");
  EXPECT_EQ(tool({"publish", path("model"), versions, "--figure", "accuracy=0.9"}).out,
            "version 1 of " + versions + " is stable\n");
  EXPECT_EQ(tool({"convert", path("model"), path("model.onnx")}).code, 0);
  const std::string gate = "accuracy >= stable - 0.01";
  const Ran worse = tool({"publish", path("model"), versions, "--figure", "accuracy=0.8", "--gate", gate});
  EXPECT_EQ(worse.code, 1);
  EXPECT_THAT(worse.err, HasSubstr("'accuracy >= stable - 0.01' does not hold: accuracy is 0.8"));
  const Ran second =
      tool({"publish", path("model.onnx"), versions, "--figure", "accuracy=0.91", "--gate", gate, "--json"});
  EXPECT_EQ(last_event(second.out), nlohmann::json::parse(R"({"event":"published","version":2,"label":"canary"})"));
  EXPECT_EQ(tool({"versions", versions}).out, "1      stable    accuracy 0.9\n2      canary    accuracy 0.91\n");
  EXPECT_EQ(tool({"promote", versions}).out, "version 2 of " + versions + " is stable\n");
  EXPECT_EQ(tool({"rollback", versions}).out, "version 2 of " + versions + " is rejected, version 1 is stable\n");
  EXPECT_EQ(tool({"rollback", versions}).code, 1);
  EXPECT_EQ(tool({"run", versions + "/2.onnx", "--inputs", path("in.npz"), "--outputs", path("out.npz")}).code, 0);
  EXPECT_THAT(tool({"publish", path("model")}).err, HasSubstr("publish takes two models"));
  EXPECT_THAT(tool({"promote", versions, "--promote"}).err, HasSubstr("promote does not take --figure"));
}

TEST_F(ModelTool, DoesNotPublishWhatClientsWouldMiss) {
  const std::string versions = path("served");
  EXPECT_EQ(tool({"publish", path("model"), versions}).code, 0);
  SavedModel other = read_model(posix_file_system(), path("model"));
  ModelSignature& predict = other.signatures.at("predict");
  const auto refused = [&] {
    save_model(posix_file_system(), path("other"), other);
    const Ran ran = tool({"publish", path("other"), versions});
    EXPECT_EQ(ran.code, 1);
    return ran.err;
  };
  const auto y = predict.outputs.extract("y");
  predict.outputs["z"] = y.mapped();
  EXPECT_THAT(refused(),
              HasSubstr("clients of version 1, which is stable, would fail: signature 'predict' has no output 'y'"));
  other.signatures["other"] = predict;
  other.signatures.erase("predict");
  EXPECT_THAT(refused(), HasSubstr("signature 'predict' is not there"));
  EXPECT_EQ(tool({"publish", path("other"), versions, "--any-signature"}).code, 0);
}

}  // namespace
}  // namespace troupe
