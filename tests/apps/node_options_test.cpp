#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/node/options.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

EarlyExit node_exit(const std::vector<std::string>& arguments, bool launched = false) {
  const auto parsed = parse_node_options(arguments, launched);
  const auto* exit = std::get_if<EarlyExit>(&parsed);
  return exit != nullptr ? *exit : EarlyExit{0, "accepted", ""};
}

TEST(NodeOptions, TakesWhatIsGiven) {
  const auto parsed = parse_node_options({"--job",
                                          "worker",
                                          "--task",
                                          "3",
                                          "--cluster",
                                          "c.json",
                                          "--devices",
                                          "2",
                                          "--threads",
                                          "4",
                                          "--join-timeout",
                                          "5",
                                          "--insecure",
                                          "--max-tensor",
                                          "3GiB",
                                          "--in-flight",
                                          "1MiB",
                                          "--max-strangers",
                                          "7",
                                          "--peer-timeout",
                                          "9",
                                          "--max-connections",
                                          "11",
                                          "--hello-timeout",
                                          "3"},
                                         false);
  const auto& options = std::get<NodeOptions>(parsed);
  EXPECT_EQ(options.membership.name(), (TaskName{"worker", 3}));
  EXPECT_EQ(options.membership.file, "c.json");
  EXPECT_TRUE(options.membership.network.insecure);
  EXPECT_EQ(options.membership.network.max_tensor, 3ull << 30);
  EXPECT_EQ(options.membership.network.in_flight, 1ull << 20);
  EXPECT_EQ(options.membership.network.max_strangers, 7);
  EXPECT_EQ(options.membership.network.peer_timeout, std::chrono::seconds(9));
  EXPECT_EQ(options.membership.network.max_connections, 11);
  EXPECT_EQ(options.membership.network.hello_timeout, std::chrono::seconds(3));
  EXPECT_EQ(options.task.cpu_devices, 2);
  EXPECT_EQ(options.task.threads, 4);
  EXPECT_EQ(options.membership.join_timeout, std::chrono::seconds(5));
  EXPECT_EQ(node_exit({"--job", "ps", "--task", "0"}, true).out, "accepted");
}

TEST(NodeOptions, WrongUsageIsExplained) {
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "missing: --job, --task, --cluster"},
           {{"--job", "worker", "--task", "0"}, "missing: --cluster"},
           {{"--job", "worker", "--task", "one"}, "--task: expected a whole number from 0"},
           {{"--devices", "0"}, "--devices: expected a whole number from 1 to 1024"},
           {{"--join-timeout", "0"}, "--join-timeout: expected"},
           {{"--job", "w", "--task", "0", "--cluster", "c", "--tls-cert", "c.pem"}, "belong together"},
           {{"--job", "w", "--task", "0", "--cluster", "c", "--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a",
             "--insecure"},
            "--insecure"},
           {{"--max-tensor", "much"}, "--max-tensor: expected a number of bytes"},
           {{"--job", "w", "--task", "0", "--cluster", "c", "--in-flight", "1KiB"}, "--in-flight: expected 512KiB"},
           {{"--max-strangers", "0"}, "--max-strangers: expected a whole number from 1"},
           {{"--max-connections", "0"}, "--max-connections: expected a whole number from 1"},
           {{"--hello-timeout", "0"}, "--hello-timeout: expected a whole number from 1"},
           {{"--peer-timeout", "0"}, "--peer-timeout: expected a whole number from 1"},
           {{"stray"}, "stray"}}) {
    SCOPED_TRACE(message);
    const EarlyExit exit = node_exit(arguments);
    EXPECT_EQ(exit.code, 2);
    EXPECT_EQ(exit.out, "");
    EXPECT_THAT(exit.err, AllOf(::testing::StartsWith("troupe-node: "), HasSubstr(message)));
  }
  EXPECT_THAT(node_exit({"--help"}).out, AllOf(HasSubstr("Usage: troupe-node"), HasSubstr("--join-timeout")));
}

}  // namespace
}  // namespace troupe
