// troupe-node as a process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using testing::free_ports;
using ::testing::HasSubstr;
using testing::Process;
using testing::TemporaryDirectory;

std::string cluster_of(const std::vector<int>& ports) {
  std::string addresses;
  for (const int port : ports) addresses += fmt::format("{}\"127.0.0.1:{}\"", addresses.empty() ? "" : ",", port);
  return fmt::format(R"({{"name":"demo","token":"t","worker":[{}]}})", addresses);
}

TEST(Node, MeetsTheOthersSaysReadyAndEndsWhenAsked) {
  TemporaryDirectory directory;
  const std::vector<int> ports = free_ports(2);
  const std::string file = directory.write("c.json", cluster_of(ports));
  Process first({testing::program("troupe-node"), "--job", "worker", "--task", "0", "--cluster", file});
  first.wait_for("waits for 1 other task of cluster 'demo'");
  EXPECT_THAT(first.err, ::testing::Not(HasSubstr("ready")));
  Process second({testing::program("troupe-node"), "--job", "worker", "--task", "1", "--cluster", file});
  first.wait_for(fmt::format("/job:worker/task:0 is ready at 127.0.0.1:{}\n", ports[0]));
  second.wait_for(fmt::format("/job:worker/task:1 is ready at 127.0.0.1:{}\n", ports[1]));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 143) << first.err;
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 130) << second.err;
  EXPECT_EQ(first.out + second.out, "");
}

TEST(Node, EndsAtOnceWhileItWaitsForOthers) {
  TemporaryDirectory directory;
  const std::string file = directory.write("c.json", cluster_of(free_ports(2)));
  Process node({testing::program("troupe-node"), "--job", "worker", "--task", "0", "--cluster", file});
  node.wait_for("waits for");
  node.signal(SIGTERM);
  EXPECT_EQ(node.wait(), 143);
}

TEST(Node, NamesWhoDidNotCome) {
  TemporaryDirectory directory;
  const std::string file = directory.write("c.json", cluster_of(free_ports(2)));
  Process node(
      {testing::program("troupe-node"), "--job", "worker", "--task", "0", "--cluster", file, "--join-timeout", "1"});
  EXPECT_EQ(node.wait(), 1);
  EXPECT_THAT(node.err, HasSubstr("/job:worker/task:1"));
}

TEST(Node, WrongUsageAndBadFilesAreExplained) {
  TemporaryDirectory directory;
  const std::string broken = directory.write("broken.json", "{\"name\":");
  Process unfinished({testing::program("troupe-node"), "--job", "worker"});
  EXPECT_EQ(unfinished.wait(), 2);
  EXPECT_THAT(unfinished.err, HasSubstr("troupe-node: "));
  Process malformed({testing::program("troupe-node"), "--job", "worker", "--task", "0", "--cluster", broken});
  EXPECT_EQ(malformed.wait(), 1);
  EXPECT_THAT(malformed.err, HasSubstr("broken.json: not JSON"));
}

TEST(Node, RunsUnderTheLauncher) {
  Process cluster({testing::program("troupe-launch"), "--workers", "2", "--", testing::program("troupe-node")});
  cluster.wait_for("is ready at", 2);
  cluster.signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 143) << cluster.err;
}

}  // namespace
}  // namespace troupe
