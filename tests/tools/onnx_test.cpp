// troupe-model on models of ONNX: the tests of ONNX, the ops that are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Process;

constexpr const char* kData = "/usr/share/libonnx-testdata/data";

// A run of troupe-model: its exit code, and what it printed.
struct Ran {
  int code;
  std::string out, err;
};

// Lines of a file of this folder; those that begin with "#" are comments.
std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> out;
  std::istringstream lines(testing::content_of(testing::source_file("tests/tools/" + file)));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != '#') out.push_back(line);
  return out;
}

// "NAME: why" of each line.
std::map<std::string, std::string> reasons_in(const std::string& file) {
  std::map<std::string, std::string> out;
  for (const std::string& line : lines_of(file)) {
    const std::size_t colon = line.find(": ");
    EXPECT_NE(colon, line.npos) << "no reason: " << line;
    out[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return out;
}

std::vector<nlohmann::json> events_of(const std::string& out) {
  std::vector<nlohmann::json> events;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

// The tests of ONNX itself, from Debian's package. onnx_failures.txt lists those that do not pass, and why.
void expect_to_pass(const std::vector<std::string>& options) {
  if (!std::filesystem::is_directory(kData)) GTEST_SKIP() << "no " << kData << ": install libonnx-testdata";
  std::vector<std::string> command{testing::program("troupe-model"), "test", "--json"};
  command.insert(command.end(), options.begin(), options.end());
  for (const char* set : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    command.push_back(std::string(kData) + "/" + set);
  Process tool(command);
  tool.wait();
  std::map<std::string, std::string> failures = reasons_in("onnx_failures.txt");
  int tests = 0;
  for (const nlohmann::json& event : events_of(tool.out)) {
    if (event["event"] != "test") continue;
    ++tests;
    const bool listed = failures.erase(event["name"]) > 0, passed = event["result"] == "passed";
    if (passed && listed) ADD_FAILURE() << event["name"] << " passes: remove it from onnx_failures.txt";
    if (!passed && !listed) ADD_FAILURE() << event["name"] << ": " << event["why"];
  }
  EXPECT_EQ(tests, 1072);
  for (const auto& [name, why] : failures) ADD_FAILURE() << name << " is listed, but there is no such test";
}

TEST(OnnxTool, PassesTheTestsOfOnnxButForThoseListed) { expect_to_pass({}); }
TEST(OnnxTool, PassesThemAgainAfterItHasWrittenTheModels) { expect_to_pass({"--again"}); }

Ran run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), testing::program("troupe-model"));
  Process tool(arguments);
  const int code = tool.wait();
  return {code, tool.out, tool.err};
}

TEST(OnnxTool, ReadsTheOperatorsOfOpset17ButForThoseListed) {
  std::set<std::string> read;
  std::map<std::string, bool> written;
  for (const nlohmann::json& event : events_of(run({"ops", "--json"}).out)) {
    if (event["format"] != "onnx") continue;
    if (event["action"] != "reads")
      written[event["name"]] = event["action"] == "writes";
    else if (event["domain"] == "")
      read.insert(event["name"]);
  }
  std::map<std::string, std::string> unread = reasons_in("onnx_unread.txt");
  EXPECT_LE(unread.size(), 10u);
  const std::vector<std::string> operators = lines_of("onnx_operators.txt");
  EXPECT_EQ(operators.size(), 176u);
  for (const std::string& op : operators)
    EXPECT_NE(read.contains(op), unread.erase(op) > 0) << op << ": is it read, or listed in onnx_unread.txt?";
  for (const auto& [op, why] : unread) ADD_FAILURE() << op << " is listed in onnx_unread.txt, but is no operator";
  EXPECT_TRUE(written.at("Attention"));
  EXPECT_FALSE(written.at("ApplyAdam"));
  const std::string text = run({"ops"}).out;
  for (const char* line : {"reads    onnx       LSTM\n", "reads    onnx       ai.onnx.ml.Scaler\n",
                           "writes   onnx       LSTM\n", "refuses  onnx       ApplyAdam\n",
                           "reads    tensorflow StatefulPartitionedCall\n", "writes   tensorflow LSTM\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

// y = x w, with a variable, and Foo of y if it is wanted.
std::string model_bytes(bool foo) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2}, "x");
  const VariableRef w = variable(g, {.name = "w", .initial_value = constant(g, Tensor::zeros(DType::f32, {2, 1}))});
  const Output y = relu(matmul(x, w.read()), "y");
  std::string bytes = to_onnx(g, {.inputs = {{"x", x, {}}},
                                  .outputs = {{"y", y, {}}},
                                  .variables = {{"w", Tensor::of<float>(Shape{2, 1}, {3, 4})}}});
  if (const std::size_t at = bytes.find("\"\x04Relu"); foo && at != bytes.npos) bytes.replace(at + 2, 4, "Foo1");
  return bytes;
}

TEST(OnnxTool, ShowsTheGraphOfAModel) {
  const testing::TemporaryDirectory directory;
  const std::string model = directory.write("m.onnx", model_bytes(false));
  const Ran text = run({"graph", model});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("y = Relu("));
  EXPECT_EQ(events_of(run({"graph", model, "--json"}).out).at(0)["text"], text.out);
}

TEST(OnnxTool, TellsWhatAModelSaysThatHasUnknownOps) {
  const testing::TemporaryDirectory directory;
  const std::string model = directory.write("m.onnx", model_bytes(true));
  const Ran info = run({"info", model});
  EXPECT_EQ(info.code, 0) << info.err;
  for (const char* line : {"format      onnx, troupe", "opset       ai.onnx 17", "input     x f32[?,2]",
                           "parameters  2 in 1 tensors, 8 bytes", "op          MatMul 1", "unknown op  Foo1"})
    EXPECT_THAT(info.out, HasSubstr(line));
  const nlohmann::json event = events_of(run({"info", model, "--json"}).out).at(0);
  EXPECT_EQ(event["unknown_ops"], nlohmann::json::parse(R"(["Foo1"])"));
  EXPECT_EQ(event["signatures"]["predict"]["outputs"]["y"]["type"], "f32[?,1]");
  EXPECT_THAT(run({"check", model}).out, HasSubstr("Foo1"));
}

TEST(OnnxTool, RefusesDamagedModels) {
  const testing::TemporaryDirectory directory;
  const std::string damaged = directory.write("d.onnx", model_bytes(false).substr(0, 30));
  for (const char* command : {"info", "graph", "run"}) {
    const Ran ran = run({command, damaged});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("d.onnx: not an ONNX model, or a damaged one")) << command;
  }
  EXPECT_THAT(run({"check", damaged}).out, HasSubstr("not an ONNX model, or a damaged one"));
}

TEST(OnnxTool, FoldersOfTestsMustExist) {
  const Ran none = run({"test", "/nowhere"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("troupe-model: '/nowhere' is not a folder"));
}

}  // namespace
}  // namespace troupe
