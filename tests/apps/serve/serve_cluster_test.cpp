// Replicas behind a router, as processes: under load some are killed and others stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::save_version;
using testing::TemporaryDirectory;

class ServeCluster : public ::testing::Test {
 protected:
  void start(int replicas, std::vector<std::string> more = {}) {
    save_version(directory_, "m", 1);
    std::vector<std::string> command{testing::program("troupe-launch"),
                                     "--serve",
                                     std::to_string(replicas),
                                     "--restart",
                                     "100",
                                     "--",
                                     testing::program("troupe-serve"),
                                     "--model",
                                     "m=" + directory_.file("m"),
                                     "--rest-port",
                                     "0",
                                     "--no-grpc",
                                     "--poll",
                                     "0.05",
                                     "--json",
                                     "--peer-timeout",
                                     "1"};
    command.insert(command.end(), more.begin(), more.end());
    cluster_.emplace(command);
    cluster_->wait_for("\"rest_port\"");
    std::smatch found;
    static const std::regex port(R"("rest_port":(\d+))");
    ASSERT_TRUE(std::regex_search(cluster_->out, found, port)) << cluster_->out;
    rest_port_ = static_cast<std::uint16_t>(std::stoi(found[1]));
  }
  std::string said(const std::string& method, const std::string& path, const std::string& body = "") const {
    wire::RawPeer peer(rest_port_);
    peer.send(method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer.all_that_comes();
  }
  // The number of the newest process of a replica.
  pid_t pid(const std::string& task) const {
    const std::regex line(task + R"((?: restarted as process| is process) (\d+))");
    pid_t out = 0;
    for (std::sregex_iterator at(cluster_->err.begin(), cluster_->err.end(), line), end; at != end; ++at)
      out = std::stoi((*at)[1]);
    return out;
  }

  TemporaryDirectory directory_;
  std::optional<Process> cluster_;
  std::uint16_t rest_port_ = 0;
};

TEST_F(ServeCluster, LosesNoRequestWhenReplicasAreKilledAndStopped) {
  start(3);
  EXPECT_THAT(said("GET", "/v1/models/m"), HasSubstr("AVAILABLE"));
  std::atomic<bool> over = false;
  constexpr std::size_t kClients = 4;
  std::array<std::atomic<int>, kClients> asked{};
  std::atomic<int> wrong = 0;
  std::mutex mutex;
  std::string first_wrong;
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < kClients; ++i)
    clients.emplace_back([&, i] {
      for (std::size_t k = 0; !over; ++k) {
        const std::size_t x = i * 1000 + k % 1000;
        const std::string answer =
            said("POST", "/v1/models/m:predict", fmt::format(R"({{"instances": [[{}, 1]]}})", x));
        // "y" is "x" times the version, which the answer names.
        const std::string expected = fmt::format(R"({{"version":1.0,"y":[{}.0,1.0]}})", x);
        if (answer.find("200 OK") == std::string::npos || answer.find(expected) == std::string::npos) {
          ++wrong;
          const std::lock_guard lock(mutex);
          if (first_wrong.empty()) first_wrong = answer;
        }
        ++asked[i];
      }
    });
  // Until each client has had so many answers more.
  const auto more = [&](int requests) {
    std::array<int, kClients> before{};
    for (std::size_t i = 0; i < kClients; ++i) before[i] = asked[i];
    EXPECT_TRUE(testing::eventually([&] {
      cluster_->read_what_came();
      for (std::size_t i = 0; i < kClients; ++i)
        if (asked[i] <= before[i] + requests) return false;
      return true;
    })) << cluster_->err;
  };
  more(20);
  ASSERT_GT(pid("serve/0"), 0) << cluster_->err;
  kill(pid("serve/0"), SIGKILL);
  more(20);
  cluster_->wait_for("serve/0 restarted as process");
  const pid_t stopped = pid("serve/1");
  testing::stop_process(stopped);
  more(20);  // requests that it has wait until its silence is noticed
  kill(pid("serve/2"), SIGKILL);
  more(20);
  kill(stopped, SIGCONT);
  more(20);
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0) << first_wrong << cluster_->err;
  cluster_->signal(SIGTERM);
  EXPECT_EQ(cluster_->wait(), 143) << cluster_->err;
}

TEST_F(ServeCluster, NewVersionsReachAllReplicas) {
  start(2);
  save_version(directory_, "m", 2);
  EXPECT_TRUE(testing::eventually([&] {
    cluster_->read_what_came();
    return said("POST", "/v1/models/m:predict", R"({"instances": [[1, 2]]})").find(R"("version":2.0)") !=
           std::string::npos;
  }));
  EXPECT_THAT(said("GET", "/readyz"), HasSubstr("200"));
  cluster_->signal(SIGTERM);
  EXPECT_EQ(cluster_->wait(), 143) << cluster_->err;
}

}  // namespace
}  // namespace troupe
