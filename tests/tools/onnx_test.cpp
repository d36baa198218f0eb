// troupe-onnx as its users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/process.hpp"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Process;

constexpr const char* kData = "/usr/share/libonnx-testdata/data";

// The tests of ONNX itself, from Debian's package. More pass with each op that is known.
TEST(OnnxTool, PassesTheTestsOfOnnxWhoseOpsAreKnown) {
  if (!std::filesystem::is_directory(kData)) GTEST_SKIP() << "no " << kData << ": install libonnx-testdata";
  std::vector<std::string> command{testing::program("troupe-onnx"), "test", "--json"};
  for (const char* set : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    command.push_back(std::string(kData) + "/" + set);
  Process tool(command);
  EXPECT_EQ(tool.wait(), 1) << tool.err;
  std::istringstream lines(tool.out);
  nlohmann::json last;
  int tests = 0;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line);
    tests += last["event"] == "test";
  }
  EXPECT_EQ(last["event"], "final");
  EXPECT_EQ(tests, 1072);
  EXPECT_GE(last["passed"], 138) << "tests that passed fail";
}

TEST(OnnxTool, ExplainsWrongUse) {
  Process none({testing::program("troupe-onnx"), "test", "/nowhere"});
  EXPECT_EQ(none.wait(), 1);
  EXPECT_THAT(none.err, HasSubstr("troupe-onnx: '/nowhere' is not a folder"));
  Process unknown({testing::program("troupe-onnx"), "paint"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_THAT(unknown.err, HasSubstr("unknown command 'paint': pass test"));
}

}  // namespace
}  // namespace troupe
