// troupe-serve among clients that mean no good: it answers the others, and its memory stays bounded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/process.hpp"
#include "tests/long_runs.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Process;
using testing::save_version;
using testing::TemporaryDirectory;
using wire::RawPeer;

constexpr const char* kBody = R"({"instances": [[1, 2]]})";

class HostileClients : public ::testing::Test {
 protected:
  void start(std::vector<std::string> more = {}) {
    save_version(directory_, "m", 1);
    std::vector<std::string> command{
        testing::program("troupe-serve"), "--json", "--rest-port", "0", "--grpc-port", "0", "--model",
        "m=" + directory_.file("m")};
    command.insert(command.end(), more.begin(), more.end());
    server_.emplace(command);
    server_->wait_for("\"ready\"");
    const auto ready = nlohmann::json::parse(server_->out.substr(0, server_->out.find('\n')));
    rest_port_ = ready.at("rest_port");
    grpc_port_ = ready.at("grpc_port");
  }
  static std::string head(const std::string& length) {
    return "POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + length + "\r\n\r\n";
  }
  std::string predicted() const {
    RawPeer peer(rest_port_);
    peer.send(head(fmt::format("Content-Length: {}", std::string(kBody).size())) + kBody);
    return peer.all_that_comes();
  }
  // Resident, in MiB.
  double memory() const {
    std::ifstream status(fmt::format("/proc/{}/status", server_->pid()));
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
    return 0;
  }
  int end() {
    server_->signal(SIGTERM);
    return server_->wait();
  }

  TemporaryDirectory directory_;
  std::optional<Process> server_;
  std::uint16_t rest_port_ = 0, grpc_port_ = 0;
};

TEST_F(HostileClients, ThousandsWhoSayLittleHoldNobodyUp) {
  start();
  const double before = memory();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::uint64_t wanted = std::min<std::uint64_t>(testing::seeds(10'000), limit.rlim_cur / 2);
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const bool grpc = i % 2 == 0;
    idle.push_back(std::make_unique<RawPeer>(grpc ? grpc_port_ : rest_port_));
    if (i % 3 == 0) idle.back()->send(grpc ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "POST /v1/mod");
    if (i % 7 == 0 && !grpc) idle.back()->send(head("Content-Length: 1000000") + "{");
  }
  for (int i = 0; i < 20; ++i) EXPECT_THAT(predicted(), HasSubstr("200 OK"));
  EXPECT_LT(memory(), before + 64 + 0.1 * static_cast<double>(wanted));  // at most 100 KiB for each
  idle.clear();
  EXPECT_EQ(end(), 0) << server_->err;
}

TEST_F(HostileClients, AFloodBeyondTheQueueIsRefusedAtOnce) {
  start({"--batch", "--batch-above", "0", "--batch-rows", "64", "--batch-timeout", "60000000", "--batch-queue", "8",
         "--drain-timeout", "1"});
  std::vector<std::unique_ptr<RawPeer>> waiting;
  const auto ask = [&] {
    auto peer = std::make_unique<RawPeer>(rest_port_);
    peer->send(head(fmt::format("Content-Length: {}", std::string(kBody).size())) + kBody);
    return peer;
  };
  for (int i = 0; i < 8; ++i) waiting.push_back(ask());
  EXPECT_TRUE(testing::eventually([&] {  // the eight are in the queue: the next is refused
    RawPeer peer(rest_port_);
    peer.send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return peer.all_that_comes().find(
               "troupe_servable_rows_waiting{task=\"/job:serve/task:0\",model=\"m\",version=\"1\"} "
               "8\n") != std::string::npos;
  }));
  for (int i = 0; i < 200; ++i)
    ASSERT_THAT(ask()->all_that_comes(), AllOf(HasSubstr("503"), HasSubstr("Retry-After: ")));
  RawPeer peer(rest_port_);
  peer.send("GET /v1/models/m HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(peer.all_that_comes(), HasSubstr("AVAILABLE"));
  EXPECT_EQ(end(), 1);  // the eight were cut off
  EXPECT_THAT(server_->err, HasSubstr("requests were cut off 1 s after the signal"));
}

TEST_F(HostileClients, BodiesOfAGigabyteTakeNoMemory) {
  start({"--max-request", "1MiB", "--request-memory", "8MiB"});
  const double before = memory();
  RawPeer announced(rest_port_);
  announced.send(head("Content-Length: 1073741824"));
  EXPECT_THAT(announced.all_that_comes(), HasSubstr("413"));
  std::vector<std::thread> senders;
  for (int i = 0; i < 4; ++i)
    senders.emplace_back([&] {
      RawPeer peer(rest_port_);
      peer.send(head("Transfer-Encoding: chunked"));
      const std::string chunk = "100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
      for (int k = 0; k < 1024 && peer.send(chunk); ++k) {
      }
    });
  for (std::thread& sender : senders) sender.join();
  EXPECT_THAT(predicted(), HasSubstr("200 OK"));
  EXPECT_LT(memory(), before + 64);
  EXPECT_EQ(end(), 0) << server_->err;
}

}  // namespace
}  // namespace troupe
