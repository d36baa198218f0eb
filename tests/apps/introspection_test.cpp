// Looking into clusters of real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "actors/introspection/observer.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/apps/process.hpp"
#include "tests/processes/places.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::Cluster;
using ::testing::HasSubstr;
using testing::last_line;
using testing::Process;
using testing::TemporaryDirectory;

constexpr std::chrono::seconds kPatience{30};

// The address that troupe-launch and --introspect-port print.
HttpTarget target_of(Process& process) {
  process.wait_for("look into ");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(process.err, found, std::regex("look into [^\n]*(http://[^\n]*)")));
  return HttpTarget::parse(found.str(1));
}

std::string only_file_in(const std::string& directory) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) found.push_back(entry.path().string());
  EXPECT_EQ(found.size(), 1u);
  if (found.empty()) return "";
  std::ifstream file(found[0]);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LookingIntoAProcess, IsPossibleWithoutACluster) {
  Process process({TROUPE_MNIST_BINARY, "--json", "--epochs", "100000", "--digits", "600,20", "--introspect-port", "0"});
  const HttpTarget target = target_of(process);
  process.wait_for("\"event\":\"epoch\"");
  const TaskSnapshot task = parse_task_snapshot(http_get(target, "/task", kPatience));
  ASSERT_TRUE(task.training);
  EXPECT_EQ(task.training->mode, "local");
  EXPECT_GT(task.training->steps, 0u);
  EXPECT_EQ(task.training->examples, 32 * task.training->steps);
  EXPECT_FALSE(task.training->recent.empty());
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
}

TEST(LookingIntoAProcess, ItWritesItsFlightRecordOnASignal) {
  TemporaryDirectory directory;
  Process process({TROUPE_MNIST_BINARY, "--json", "--epochs", "100000", "--digits", "600,20", "--flight-record", directory.path().string()});
  process.wait_for("\"event\":\"epoch\"");
  process.signal(SIGUSR1);
  process.wait_for("the last messages of all actors");
  EXPECT_THAT(only_file_in(directory.path().string()), AllOf(HasSubstr("Flight record of /job:local/task:0"), HasSubstr("ExecuteSegment"), HasSubstr("What the cluster waits for:")));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
}

TEST(LookingIntoAProcess, ItWritesItsFlightRecordWhenItsPeersFail) {
  TemporaryDirectory directory;
  Cluster cluster(1, 1, {"--mode", "sync", "--epochs", "100000", "--digits", "600,20", "--on-loss", "fail", "--flight-record", directory.path().string()});
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("ps/0"), SIGKILL);
  EXPECT_NE(cluster.wait(), 0);
  EXPECT_THAT(only_file_in(directory.path().string()), AllOf(HasSubstr("Flight record of /job:worker/task:0"), HasSubstr("/job:ps/task:0"), HasSubstr("to wire: Push"), HasSubstr("Token")));
}

}  // namespace
}  // namespace troupe
