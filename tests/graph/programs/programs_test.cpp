// Runs the graph programs beside this file, each as a test of its own.
//   test_graph_programs --rewrite    rewrites the expectations after an intended change: check the difference
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/graph/programs/program.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

std::vector<std::filesystem::path> program_files() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(TROUPE_GRAPH_PROGRAMS))
    if (entry.path().extension() == ".txt") out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

Program read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return Program::parse(text);
}

class GraphProgram : public ::testing::Test {
 public:
  explicit GraphProgram(std::filesystem::path path) : path_(std::move(path)) {}
  void TestBody() override {
    try {
      const Program program = read(path_);
      EXPECT_FALSE(program.comment.empty()) << "the program does not say what it shows";
      if (const Outcome outcome = run(program); !outcome.failures.empty())
        ADD_FAILURE() << path_.filename().string() << ", " << outcome.failures
                      << "If this is meant: test_graph_programs --rewrite, and look at the difference.";
    } catch (const Error& error) {
      ADD_FAILURE() << path_.filename().string() << ": " << error.to_string();
    }
  }

 private:
  std::filesystem::path path_;
};

int rewrite() {
  int failed = 0;
  for (const auto& path : program_files()) {
    try {
      const std::string text = run(read(path)).actual.to_text();
      std::ofstream(path, std::ios::binary) << text;
    } catch (const Error& error) {
      std::cerr << path.filename().string() << ": " << error.to_string() << "\n";
      failed = 1;
    }
  }
  return failed;
}

TEST(GraphProgramFormat, AProgramIsASequenceOfSections) {
  const std::string text = "What it shows.\n\n=== graph\nx = NoOp()\n=== callable targets=x\n=== expect\ny\n";
  const Program program = Program::parse(text);
  EXPECT_EQ(program.comment, "What it shows.");
  ASSERT_EQ(program.sections.size(), 3u);
  EXPECT_EQ(program.sections[1].name, "callable");
  EXPECT_EQ(program.sections[1].options, "targets=x");
  EXPECT_EQ(program.sections[2].line, 6);
  EXPECT_EQ(program.to_text(), text);
  EXPECT_THROW(Program::parse("x = NoOp()"), Error);
}

TEST(GraphProgramFormat, AWrongExpectationFailsAndIsRewritten) {
  const Outcome outcome = run(Program::parse("=== graph\nx = NoOp()\n=== expect\ny = NoOp()\n"));
  EXPECT_EQ(outcome.failures, "line 3: section 'expect' should be\ny = NoOp()\nbut is\nx = NoOp()\n");
  EXPECT_EQ(outcome.actual.sections[1].body, "x = NoOp()");
  EXPECT_EQ(run(outcome.actual).failures, "");
}

TEST(GraphProgramFormat, WideLinesOfAnExpectationContinueOnTheNext) {
  std::string graph, waits;
  for (int i = 0; i < 30; ++i) {
    graph += fmt::format("node_{} = NoOp()\n", i);
    waits += fmt::format("{}^node_{}", i == 0 ? "" : ", ", i);
  }
  const Program program = Program::parse("=== graph\n" + graph + "all = NoOp(" + waits + ")\n=== expect\n");
  const Program rewritten = run(program).actual;
  std::istringstream lines(rewritten.sections[1].body);
  int continued = 0;
  for (std::string line; std::getline(lines, line); continued += line.ends_with(" \\")) EXPECT_LE(line.size(), 120u);
  EXPECT_EQ(continued, 2);
  EXPECT_EQ(run(Program::parse(rewritten.to_text())).failures, "");
}

TEST(GraphProgramFormat, AnErrorThatNobodyExpectsOrThatDoesNotComeFails) {
  EXPECT_THROW(run(Program::parse("=== graph\nx = Nothing()\n=== expect\n")), Error);
  EXPECT_THROW(run(Program::parse("=== graph\nx = NoOp()\n=== magic\n")), Error);
  EXPECT_THROW(run(Program::parse("=== graph\nx = NoOp()\n=== callable target=x\n")), Error);
  EXPECT_EQ(run(Program::parse("=== graph\nx = NoOp()\n=== error\nnot_found: x\n")).actual.sections[1].body,
            "no error");
}

}  // namespace
}  // namespace troupe::testing

int main(int argc, char** argv) {
  using namespace troupe::testing;
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "--rewrite") return rewrite();
  for (const auto& path : program_files()) {
    const std::string name = path.stem().string();
    ::testing::RegisterTest("GraphPrograms", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [path]() -> ::testing::Test* { return new GraphProgram(path); });
  }
  return RUN_ALL_TESTS();
}
