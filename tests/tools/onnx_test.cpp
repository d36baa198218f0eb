// troupe-onnx as its users run it.
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
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/text.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Process;

constexpr const char* kData = "/usr/share/libonnx-testdata/data";

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
  std::vector<std::string> command{testing::program("troupe-onnx"), "test", "--json"};
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

// A run of troupe-onnx: its exit code, and what it printed.
struct Ran {
  int code;
  std::string out, err;
};
Ran run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), testing::program("troupe-onnx"));
  Process tool(arguments);
  const int code = tool.wait();
  return {code, tool.out, tool.err};
}

// y = x w, with a variable.
std::string graph_text() {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2}, "x");
  const Output start = constant(g, Tensor::of<float>(Shape{2, 1}, {3, 4}));
  const VariableRef w = variable(g, {.name = "w", .initial_value = start});
  matmul(x, w.read(), {.name = "y"});
  return to_text(g);
}

TEST(OnnxTool, GraphsBecomeModelsThatRun) {
  const testing::TemporaryDirectory directory;
  const std::string graph = directory.write("g.txt", graph_text()), model = directory.file("m.onnx");
  const Ran made = run({"export", graph, model, "--outputs", "y"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("a model with 1 inputs, 1 outputs, 1 variables"));
  const Ran info = run({"info", model});
  for (const char* line : {"opset       ai.onnx 17", "input       x f32[?,2]", "output      y f32[?,1]",
                           "parameters  2 in 1 tensors, 8 bytes", "op          MatMul 1"})
    EXPECT_THAT(info.out, HasSubstr(line));
  EXPECT_THAT(run({"check", model}).out, HasSubstr("a valid model of opset 17"));

  std::filesystem::create_directory(directory.file("in"));
  directory.write("in/x.pb", to_onnx_value(Tensor::of<float>(Shape{1, 2}, {1, 2}), "x", {}));
  const Ran ran = run({"run", model, "--inputs", directory.file("in"), "--outputs", directory.file("out")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("y: f32[1,1] = 11"));
  const Tensor y = parse_onnx_value(testing::content_of(directory.file("out/output_0.pb")));
  EXPECT_EQ(y.item<float>(), 11.0f);

  const Ran back = run({"import", model, directory.file("again.graph"), "--json"});
  EXPECT_EQ(back.code, 0) << back.err;
  const nlohmann::json event = nlohmann::json::parse(back.out);
  EXPECT_EQ(event["inputs"][0]["tensor"], "x");
  const auto read = parse_graph(testing::content_of(directory.file("again.graph")));
  EXPECT_EQ(variables(*read).size(), 1u);
  const Ran again = run({"export", directory.file("again.graph"), directory.file("again.onnx"), "--outputs",
                         event["outputs"][0]["tensor"].get<std::string>()});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST(OnnxTool, ReadsTheOperatorsOfOpset17ButForThoseListed) {
  std::set<std::string> read;
  std::map<std::string, bool> written;
  for (const nlohmann::json& event : events_of(run({"ops", "--json"}).out)) {
    if (event["domain"] == "ai.onnx") read.insert(event["name"]);
    if (event["domain"] == "troupe") written[event["name"]] = event["written"];
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
  for (const char* line : {"reads    LSTM\n", "writes   LSTM\n", "refuses  ApplyAdam\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(OnnxTool, SaysWhatIsMissing) {
  const testing::TemporaryDirectory directory;
  const std::string graph = directory.write("g.txt", graph_text()), model = directory.file("m.onnx");
  EXPECT_THAT(run({"export", graph, model, "--outputs", "z"}).err, HasSubstr("'z'"));
  EXPECT_EQ(run({"export", graph, model, "--outputs", "y"}).code, 0);
  EXPECT_THAT(run({"run", model}).err, HasSubstr("an input 'x': pass a folder with --inputs that has x.pb or"));
  EXPECT_THAT(run({"run", model, "--inputs", directory.file("")}).err, HasSubstr("neither x.pb nor input_0.pb"));
  const std::string damaged = directory.write("d.onnx", testing::content_of(model).substr(0, 30));
  for (const char* command : {"info", "check", "run"}) {
    const Ran ran = run({command, damaged});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("d.onnx: not an ONNX model, or a damaged one")) << command;
  }
}

TEST(OnnxTool, ExplainsWrongUse) {
  const Ran none = run({"test", "/nowhere"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("troupe-onnx: '/nowhere' is not a folder"));
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{}, "no command: pass info, check, run, import, export, ops or test"},
      {{"paint"}, "unknown command 'paint': pass info, check, run, import, export, ops or test"},
      {{"check"}, "check takes one file"},
      {{"import", "a"}, "import takes two files"},
      {{"export", "a", "b"}, "export needs --outputs"},
      {{"check", "a", "--inputs", "b"}, "check takes neither --inputs nor --outputs"},
      {{"check", "a", "--again"}, "check does not take --again"},
      {{"ops", "a"}, "ops takes no files"},
      {{"test"}, "test takes at least one folder"}};
  for (const auto& [arguments, message] : wrong) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
  EXPECT_THAT(run({"info", "/nowhere"}).err, HasSubstr("cannot open '/nowhere'"));
}

}  // namespace
}  // namespace troupe
