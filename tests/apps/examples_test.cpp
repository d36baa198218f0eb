// The programs of apps/examples, as a newcomer runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Process;
using testing::program;

// What a program prints that ends well.
std::string printed_by(std::vector<std::string> command) {
  command[0] = program(command[0]);
  Process process(command);
  EXPECT_EQ(process.wait(), 0) << process.err;
  return process.out;
}

std::vector<std::string> launched(const char* ps, const char* workers, const char* example) {
  return {"troupe-launch", "--ps", ps, "--workers", workers, "--", program(example)};
}

TEST(Examples, DigitsAreLearned) {
  EXPECT_THAT(printed_by({"example_digits"}), AllOf(HasSubstr("dense_1"), HasSubstr("epoch 4: loss 0."),
                                                    ContainsRegex("Test accuracy: (0\\.9|1\\.0)")));
}

TEST(Examples, RegressionFindsTheLine) {
  EXPECT_EQ(printed_by({"example_regression"}),
            "step 0: loss 23.50\nstep 100: loss 0.00\nstep 200: loss 0.00\ny = 3.00 x + 2.00\n");
}

TEST(Examples, ATableIsLearnedWithALoopOfOnesOwn) {
  EXPECT_THAT(printed_by({"example_table"}), ContainsRegex("^(9[5-9]|100) % of 400 rows are right\n$"));
}

TEST(Examples, AModelIsSavedAndLoaded) {
  const testing::TemporaryDirectory directory;
  EXPECT_THAT(printed_by({"example_save_load", directory.file("model")}),
              EndsWith("the same parameters: yes, the same predictions: yes\n"));
}

TEST(Examples, AProgramOfOnesOwnTrainsOnAClusterToTheBitsOfOneProcess) {
  const std::string alone = printed_by({"example_cluster"});
  EXPECT_THAT(alone, AllOf(HasSubstr("epoch 4: loss 0."), ContainsRegex("Parameters: [0-9a-f]+\n$")));
  EXPECT_EQ(printed_by(launched("2", "2", "example_cluster")), alone);
}

TEST(Examples, OptionsThatAProgramDoesNotKnowAreExplained) {
  Process process({program("example_cluster"), "--jobb", "worker"});
  EXPECT_EQ(process.wait(), 2);
  EXPECT_THAT(process.err, AllOf(HasSubstr("unknown option '--jobb'"), HasSubstr("--cluster FILE")));
}

TEST(Examples, TasksReduceNumbersTogether) {
  EXPECT_EQ(printed_by(launched("0", "3", "example_all_reduce")), "3 numbers: mean 1.00, variance 0.67\n");
  Process alone({program("example_all_reduce")});
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_THAT(alone.err, HasSubstr("needs a cluster: troupe-launch --workers 3 -- "));
}

TEST(Examples, AClientUsesTheDevicesOfNodes) {
  Process nodes({program("troupe-launch"), "--workers", "2", "--", program("troupe-node"), "--threads", "1"});
  nodes.wait_for(" is ready at ", 2);
  const std::string option = " --cluster ";
  const std::size_t at = nodes.err.find(option) + option.size();
  EXPECT_THAT(printed_by({"example_node_client", nodes.err.substr(at, nodes.err.find('\n', at) - at)}),
              AllOf(HasSubstr("/job:worker/task:1/device:CPU:0\n"), EndsWith("f32[2,1] = 41 169\n")));
  nodes.signal(SIGTERM);
  EXPECT_EQ(nodes.wait(), 143) << nodes.err;
}

// The clients run at the same time, end, and another finds what they left.
TEST(Examples, ClientsShareAVariableThatOutlivesThem) {
  Process nodes({program("troupe-launch"), "--workers", "1", "--", program("troupe-node"), "--threads", "1"});
  nodes.wait_for(" is ready at ", 1);
  const std::string option = " --cluster ";
  const std::size_t at = nodes.err.find(option) + option.size();
  const std::string file = nodes.err.substr(at, nodes.err.find('\n', at) - at);
  const std::string example = program("example_shared_counter");
  Process first({example, file, "1", "30"}), second({example, file, "2", "40"});
  EXPECT_EQ(first.wait(), 0) << first.err;
  EXPECT_EQ(second.wait(), 0) << second.err;
  EXPECT_EQ(printed_by({"example_shared_counter", file, "3", "0"}), "1070\n");
  nodes.signal(SIGTERM);
  EXPECT_EQ(nodes.wait(), 143) << nodes.err;
}

}  // namespace
}  // namespace troupe
