// What an attacker does to the ports of a cluster that trains: real tasks, sockets and tools of his own. The job ends
// with the same parameters, its tasks do not grow, and members get in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <random>

#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/fuzz/control_fuzz.hpp"
#include "tests/fuzz/frame_fuzz.hpp"
#include "tests/long_runs.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/http/client.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/wire/ask.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using wire::RawPeer;

// Training that lasts several times longer than an attack. Alone: 4 s, and 2 min.
testing::Arguments training() { return {"--epochs", testing::is_long_run() ? "40000" : "1000", "--digits", "600,100"}; }

std::uint64_t attacks() { return testing::is_long_run() ? 100'000 : 150; }  // on each port

std::size_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

class Hostile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    testing::Arguments alone = training();
    alone.insert(alone.begin(), {testing::program("troupe-mnist"), "--json", "--replicas", "2"});
    testing::Process process(alone);
    ASSERT_EQ(process.wait(), 0) << process.err;
    expected_ = testing::last_line(process.out).value("params_sha256", "none");
  }
  Hostile() : job_(1, 2, training()) {
    for (const char* task : {"ps/0", "worker/0", "worker/1"}) pids_.push_back(job_.pid(task));
    const std::string& said = job_->err;
    const std::string option = " --cluster ";
    const std::size_t at = said.find(option) + option.size();
    cluster_ = ClusterSpec::read(said.substr(at, said.find('\n', at) - at));
    job_->wait_for(R"("event":"epoch")");  // it trains
    for (const pid_t pid : pids_) memory_.push_back(resident_bytes(pid));
  }
  // To be called in the midst of an attack.
  void watch() { job_->read_what_came(); }
  // After the attack.
  void expect_unharmed() {
    constexpr std::size_t kGrowth = 10 << 20;
    for (std::size_t i = 0; i < pids_.size(); ++i) {
      const std::size_t now = resident_bytes(pids_[i]);
      EXPECT_GT(now, 0) << "the job ended before the attack did: let it train for longer";
      EXPECT_LT(now, memory_[i] + kGrowth) << "task " << i;
    }
    EXPECT_EQ(job_.wait(), 0) << job_->err;
    EXPECT_EQ(testing::last_line(job_->out).value("params_sha256", "none"), expected_);
  }
  std::vector<std::uint16_t> ports() const {
    std::vector<std::uint16_t> out;
    for (const auto& [task, address] : cluster_.tasks) out.push_back(address.port);
    return out;
  }
  // Somebody with the token, who has proved that.
  std::unique_ptr<RawPeer> member(const TaskName& called, const TaskName& self = {"client", 9}) {
    auto peer = std::make_unique<RawPeer>(cluster_.address(called).port);
    peer->token = cluster_.token;
    peer->cluster = cluster_.name;
    if (!peer->greet({kProtocolVersion, cluster_.name, self, called, Incarnation{random_id()}, {}})) return nullptr;
    return peer->next<Hello>() ? std::move(peer) : nullptr;
  }
  // A client joins and computes on both workers.
  Error join_and_compute() {
    return error_of([&] {
      Task client({.name = {"client", 1}, .threads = 1, .networked = true});
      client.join(cluster_, std::chrono::seconds(20));
      Graph g;
      Output sum = constant(g, Tensor::scalar(1.0f));
      for (const char* worker : {"/job:worker/task:0", "/job:worker/task:1"}) {
        const auto there = g.on_device(worker);
        sum = sum + sum;
      }
      Session session(client, g);
      EXPECT_EQ(session.run({}, sum).item<float>(), 4.0f);
    });
  }

  static inline std::string expected_;
  testing::Cluster job_;
  ClusterSpec cluster_;
  std::vector<pid_t> pids_;
  std::vector<std::size_t> memory_;
};

// What has ended processes, and what speaks other protocols.
std::vector<std::string> killing_bytes() {
  const std::string opening = wire::opening_of({"worker", 1}, {"ps", 0});
  std::string gigabyte = std::string("\2") + std::string(31, '\0');
  gigabyte[4] = 64;
  return {std::string("\1") + std::string(31, '\0'),  // CAF's handshakes without payload
          std::string(32, '\0'),
          gigabyte,  // it announces 1 GiB
          "GET /snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "\x16\x03\x01\x02\x01",
          std::string(300, '\xff'),
          opening.substr(0, 100),
          opening + std::string(32, '\0'),
          opening + opening,
          wire::whole_chunk(wire::hello_of({"worker", 1}, {"ps", 0}))};
}

TEST_F(Hostile, BytesAtEveryPort) {
  const auto bytes = killing_bytes();
  std::mt19937 random(1);
  std::string told;
  for (std::uint64_t i = 0; i < attacks(); ++i)
    for (const std::uint16_t port : ports()) {
      std::string said = bytes[i % bytes.size()];
      if (i >= bytes.size()) said[random() % said.size()] = static_cast<char>(random());
      RawPeer peer(port);
      peer.send(said);
      peer.end_sending();
      told += peer.all_that_comes();
      watch();
    }
  EXPECT_EQ(told.find(cluster_.token), std::string::npos);
  EXPECT_TRUE(join_and_compute().ok());
  expect_unharmed();
}

TEST_F(Hostile, MembersGetInDuringAFloodOfIdleConnections) {
  std::atomic<bool> over{false};
  std::thread flood([&] {
    std::deque<RawPeer> idle;
    for (std::size_t i = 0; !over; ++i) {
      idle.emplace_back(ports()[i % ports().size()]);
      if (idle.size() > 400) idle.pop_front();
    }
  });
  for (int i = 0; i < 3; ++i) {
    const Error error = join_and_compute();
    EXPECT_TRUE(error.ok()) << error.to_string();
  }
  over = true;
  flood.join();
  expect_unharmed();
}

// Requests that never end, a byte now and then.
TEST_F(Hostile, DripsAtTheIntrospector) {
  const wire::Asking task{
      .host = "127.0.0.1", .port = ports()[0], .cluster = cluster_.name, .token = cluster_.token, .tls = nullptr};
  const HttpTarget introspector =
      HttpTarget::parse(wire::ask(task, "introspector", wire::Clock::now() + testing::kPatience));
  const HttpTarget stranger{.address = introspector.address, .token = {}, .tls = {}};
  std::deque<RawPeer> dripping;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(attacks(), 800); ++i) {
    dripping.emplace_back(introspector.address.port);
    dripping.back().send("GET /sna");
  }
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(::testing::Message() << "round " << i);
    watch();
    for (RawPeer& peer : dripping) peer.send("p");
    EXPECT_THAT(http_get(stranger, "/healthz", testing::kPatience), HasSubstr("ok"));
    EXPECT_EQ(error_of([&] { http_get(stranger, "/snapshot", testing::kPatience); }).code(), Code::unauthenticated);
    EXPECT_THAT(http_get(introspector, "/snapshot", testing::kPatience), HasSubstr("/job:"));
  }
  expect_unharmed();
}

// He has proved that he knows the token.
TEST_F(Hostile, DamagedFramesOfAMember) {
  auto seeds = wire::frame_seeds();
  const auto control = member_seeds();
  std::mt19937 random(2);
  for (std::uint64_t i = 0; i < attacks(); ++i)
    for (const auto& [task, address] : cluster_.tasks) {
      const auto peer = member(task);
      ASSERT_TRUE(peer) << task.to_string();
      std::string bytes = i % 3 == 0 ? wire::whole_chunk(ControlBytes{control[i % control.size()].substr(1)})
                                     : seeds[1 + i % (seeds.size() - 1)].substr(1);
      for (unsigned damage = random() % 3; damage > 0; --damage)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      peer->send(bytes);
      peer->end_sending();
      static_cast<void>(peer->all_that_comes());
      watch();
    }
  EXPECT_TRUE(join_and_compute().ok());
  expect_unharmed();
}

TEST_F(Hostile, AGhostAndAForeignJoinAreTurnedAway) {
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(::testing::Message() << "ghost " << i);
    Task ghost({.name = {"ps", 7}, .threads = 1, .networked = true});
    const Error error = error_of([&] { ghost.join(cluster_, std::chrono::seconds(20)); });
    EXPECT_EQ(error.code(), Code::permission_denied);
    EXPECT_THAT(error.message(), HasSubstr("the cluster file has a job ps but no task 7"));
    const auto peer = member({"ps", 0});
    ASSERT_TRUE(peer);
    peer->send(wire::whole_chunk(Join{.shard = true}));
    const auto goodbye = peer->next<Goodbye>();
    ASSERT_TRUE(goodbye);
    EXPECT_THAT(goodbye->reason.message(), HasSubstr("may not send this Join"));
  }
  expect_unharmed();
}

// He has taken the port of a task that is not there, passes on what the two say, and looks for the token.
TEST(HostileThief, LearnsNothingAndIsNotBelieved) {
  wire::Recorder at_victim, at_listener;
  wire::RawPeer to_listener;
  WireOptions of_victim = wire::options_of(wire::kA), of_listener = wire::options_of(wire::kB);
  Wire victim(of_victim, at_victim), listener(of_listener, at_listener);
  to_listener.connect(listener.listen());
  const wire::Fd stolen = wire::listen_on(wire::resolve("127.0.0.1", 0));
  victim.dial(wire::kB, "127.0.0.1", wire::port_of(stolen), testing::kPatience);
  wire::Fd accepted;
  std::string from;
  int error = 0;
  EXPECT_TRUE(
      testing::eventually([&] { return static_cast<bool>(accepted = wire::accept_from(stolen, from, error)); }));
  RawPeer to_victim(std::move(accepted));
  const std::string opening = to_victim.bytes(wire::Authentication::kOpeningBytes);
  ASSERT_TRUE(to_listener.send(opening));
  ASSERT_TRUE(to_victim.send(to_listener.bytes(wire::Authentication::kAnswerBytes)));
  EXPECT_EQ(to_victim.all_that_comes(), "");
  ASSERT_TRUE(at_victim.wait([&] { return !at_victim.failed.empty(); }));
  EXPECT_EQ(at_victim.failed[0].reason.code(), Code::unauthenticated);
  EXPECT_EQ(opening.find(wire::kToken), std::string::npos);
  EXPECT_TRUE(at_listener.peers.empty());
}

}  // namespace
}  // namespace troupe
