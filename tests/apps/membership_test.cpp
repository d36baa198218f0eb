#include "apps/membership.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "apps/node/options.hpp"
#include "messages/error.hpp"
#include "tests/apps/process.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Error error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

Member start(const std::string& file, const std::string& job, int index, bool insecure = false) {
  return start_member({.job = job, .index = index, .file = file, .network = {.insecure = insecure}}, nullptr, {},
                      std::chrono::steady_clock::now());
}

TEST(Membership, TheTaskListensAtItsAddress) {
  testing::TemporaryDirectory directory;
  const std::vector<int> ports = testing::free_ports(2);
  const std::string file = directory.write(
      "c.json", fmt::format(R"({{"name":"demo","token":"t","ps":["127.0.0.1:{}"],"worker":["127.0.0.1:{}"]}})",
                            ports[0], ports[1]));
  Member member = start(file, "worker", 0);
  EXPECT_EQ(member.task->name(), (TaskName{"worker", 0}));
  EXPECT_EQ(member.task->port(), ports[1]);
  EXPECT_EQ(member.cluster.tasks.size(), 2u);
  EXPECT_TRUE(member.task->shutdown());
}

TEST(Membership, APlaceThatIsNotInTheFileIsRefused) {
  testing::TemporaryDirectory directory;
  const std::string file =
      directory.write("c.json", R"({"name":"demo","token":"t","ps":["127.0.0.1:7701"],"worker":["127.0.0.1:7711"]})");
  const Error absent = error_of([&] { start(file, "worker", 1); });
  EXPECT_EQ(absent.code(), Code::not_found);
  EXPECT_THAT(absent.message(), AllOf(HasSubstr("/job:worker/task:1"), HasSubstr("/job:ps/task:0")));
  EXPECT_EQ(error_of([&] { start(directory.path() / "none.json", "ps", 0); }).code(), Code::not_found);
}

TEST(Membership, AddressesThatOtherMachinesReachNeedConsent) {
  testing::TemporaryDirectory directory;
  // Of no machine (RFC 5737): listening there fails, but not for want of consent.
  const std::string file = directory.write("c.json", R"({"name":"demo","token":"t","worker":["192.0.2.1:7711"]})");
  const Error refused = error_of([&] { start(file, "worker", 0); });
  EXPECT_EQ(refused.code(), Code::failed_precondition);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("192.0.2.1:7711"), HasSubstr("--tls-cert"), HasSubstr("--insecure")));
  EXPECT_EQ(error_of([&] { start(file, "worker", 0, true); }).code(), Code::unavailable);
}

TEST(Membership, AFolderForFlightRecordsThatIsNoneIsRefusedAtOnce) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.write("file", "");
  for (const std::string& wrong : {directory.path() / "none", std::filesystem::path(file)}) {
    TaskOptions options;
    const Error refused = error_of([&] { Membership{.flight_directory = wrong}.set(options); });
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("--flight-record"), HasSubstr(wrong)));
  }
}

TEST(Membership, ATokenThatCanBeGuessedIsWarnedOf) {
  EXPECT_FALSE(token_warning({"demo", "0123456789abcdef0123456789abcdef", {}}, {}));
  EXPECT_THAT(token_warning({"demo", "secret", {}}, {}).value_or(""), HasSubstr("can be guessed"));
  EXPECT_THAT(token_warning({"demo", "", {}}, {}).value_or(""),
              AllOf(HasSubstr("anybody on this machine"), HasSubstr("troupe-launch --make-token")));
  EXPECT_THAT(token_warning({"demo", "", {}}, {.tls = {"c", "k", "ca"}}).value_or(""), HasSubstr("of its CA"));
}

TEST(Membership, LoopbackIsRecognised) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.example.com", "localhost.example.com", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Membership, CoresAreSharedAndNobodyIsLeftWithout) {
  const int cores = threads_per_device(1, 1);
  EXPECT_GE(cores, 1);
  EXPECT_EQ(threads_per_device(cores, 1), 1);
  EXPECT_EQ(threads_per_device(1, cores), 1);
  EXPECT_EQ(threads_per_device(1000 * cores, 2), 1);
}

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
  EXPECT_EQ(options.devices, 2);
  EXPECT_EQ(options.threads, 4);
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
    const EarlyExit exit = node_exit(arguments);
    EXPECT_EQ(exit.code, 2);
    EXPECT_EQ(exit.out, "");
    EXPECT_THAT(exit.err, AllOf(::testing::StartsWith("troupe-node: "), HasSubstr(message)));
  }
  EXPECT_THAT(node_exit({"--help"}).out, AllOf(HasSubstr("Usage: troupe-node"), HasSubstr("--join-timeout")));
}

}  // namespace
}  // namespace troupe
