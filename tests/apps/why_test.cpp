// Why a cluster of real processes waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <regex>
#include <thread>

#include "actors/introspection/observer.hpp"
#include "tests/apps/cluster.hpp"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Cluster;

// Asks until the answer has `text`; the last answer.
std::string why(Cluster& cluster, const std::string& text) {
  static const std::regex line("watch the cluster with: troupe-top (\\S+) --cluster (\\S+)");
  cluster->wait_for("watch the cluster with");
  std::smatch found;
  if (!std::regex_search(cluster->err, found, line)) return cluster->err;
  Observer observer({.address = found[1], .cluster = ClusterSpec::read(found[2]), .network = {}});
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::string answer;
  do answer = observer.get("/why");
  while (answer.find(text) == std::string::npos && std::chrono::steady_clock::now() < until);
  return answer;
}

TEST(WhyInACluster, AStoppedWorkerIsNamed) {
  Cluster cluster(1, 3, {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100", "--peer-timeout", "100"});
  cluster->wait_for("\"event\":\"epoch\"");
  const pid_t worker = cluster.pid("worker/1");
  kill(worker, SIGSTOP);
  const std::string answer = why(cluster, "slot");
  EXPECT_THAT(answer, HasSubstr("1. SILENT /job:worker/task:1 does not answer (no answer within 0.9 s: it is stopped, or too busy, or cut off)")) << answer;
  EXPECT_THAT(answer, HasSubstr("     which is on /job:worker/task:1\n")) << answer;
  kill(worker, SIGCONT);
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 128 + SIGTERM) << cluster->err;
}

TEST(WhyInACluster, ALostWorkerThatOthersWaitForIsNamed) {
  Cluster cluster(1, 2, {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100", "--peer-timeout", "1", "--on-loss", "wait", "--rejoin-timeout", "100"});
  cluster->wait_for("\"event\":\"epoch\"");
  const pid_t worker = cluster.pid("worker/1");
  kill(worker, SIGSTOP);
  const std::string answer = why(cluster, "to join again");
  EXPECT_THAT(answer, HasSubstr("SILENT /job:worker/task:1 does not answer")) << answer;
  EXPECT_THAT(answer, HasSubstr("/job:worker/task:1 to join again: it was lost: it is kept for it for another ")) << answer;
  kill(worker, SIGCONT);
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 128 + SIGTERM) << cluster->err;
}

}  // namespace
}  // namespace troupe
