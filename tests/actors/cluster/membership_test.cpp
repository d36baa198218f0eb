#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/processes/places.hpp"
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::error_of;

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  for (const std::string& wrong : {directory.file("none"), file}) {
    TaskOptions options;
    const Error refused = error_of([&] { Membership{.flight_directory = wrong}.set(options); });
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("--flight-record"), HasSubstr(wrong)));
  }
}

TEST(Membership, ATokenThatCanBeGuessedIsWarnedOf) {
  EXPECT_FALSE(token_warning({"demo", "0123456789abcdef0123456789abcdef", {}}, {}));
  EXPECT_THAT(token_warning({"demo", "secret", {}}, {}).value_or(""),
              HasSubstr("cluster 'demo' has a guessable token"));
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

}  // namespace
}  // namespace troupe
