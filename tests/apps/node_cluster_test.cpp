// Graphs on clusters of troupe-node processes, and clusters that cannot be.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <map>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using testing::free_ports;
using ::testing::HasSubstr;
using testing::holds_with_more_time;
using testing::Process;
using testing::TemporaryDirectory;
using testing::with_limit;

std::string json_of(const std::vector<int>& ports, const std::string& name = "demo",
                    const std::string& token = "secret") {
  std::string addresses;
  for (const int port : ports) addresses += fmt::format("{}\"127.0.0.1:{}\"", addresses.empty() ? "" : ",", port);
  return fmt::format(R"({{"name":"{}","token":"{}","worker":[{}]}})", name, token, addresses);
}

std::vector<std::string> node(int index, const std::string& file) {
  return {testing::program("troupe-node"), "--job", "worker", "--task", std::to_string(index), "--cluster", file};
}

// Three processes, and a client that no cluster file names.
class ThreeNodes : public ::testing::Test {
 protected:
  ThreeNodes() {
    const std::string file = directory_.write("c.json", json_of(free_ports(3)));
    for (int i = 0; i < 3; ++i) nodes_.try_emplace(i, node(i, file));
    for (auto& [i, process] : nodes_) process.wait_for("is ready at");
    client_.join(ClusterSpec::read(file), testing::kPatience);
  }
  ~ThreeNodes() override {
    EXPECT_TRUE(client_.shutdown());
    for (auto& [i, process] : nodes_) process.signal(SIGTERM);
    for (auto& [i, process] : nodes_) EXPECT_EQ(process.wait(), 143) << process.err;
  }

  static std::string worker(int i) { return fmt::format("/job:worker/task:{}", i); }

  TemporaryDirectory directory_;
  std::map<int, Process> nodes_;
  Task client_{{.name = {"client", 0}, .networked = true}};
};

// x, unplaced, and what three devices make of it: a = x w on the first, b = tanh(a) + noise on the second, c
// = a sum that the third keeps.
struct Pipeline {
  explicit Pipeline(const std::vector<std::string>& devices) {
    x = placeholder(graph, DType::f32, {kUnknown, 4}, "x");
    {
      const auto device = graph.on_device(devices[0]);
      w = variable(graph, {.name = "w", .initial_value = random_uniform(graph, {4, 3}, -1, 1, {.name = "w0"})});
      a = matmul(x, w.read(), {.name = "a"});
    }
    {
      const auto device = graph.on_device(devices[1]);
      h = tanh(a, "h");
      b = add(h, random_normal(graph, {2, 3}, 0, 1, {.name = "noise"}), "b");
    }
    const auto device = graph.on_device(devices[2]);
    total = variable(graph, {.name = "total", .shape = {3}});
    c = total.assign_add(sum(b, {0}));
    init = initializer(graph);
  }

  Graph graph;
  VariableRef w, total;
  Output x, a, h, b, c, init;
};

const Tensor kX = Tensor::of<float>({2, 4}, {0.5f, -1, 2, 0.25f, 3, -0.125f, 1, 1});

void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(bitwise_equal(got[i], expected[i])) << got[i].to_string() << " is not " << expected[i].to_string();
}

TEST_F(ThreeNodes, AGraphPlacedByHandHasTheValuesOfOneTask) {
  Pipeline spread({worker(0), worker(1), worker(2)}), together({"", "", ""});
  Session session(client_, spread.graph, {.seed = 5}), alone(together.graph, {.seed = 5});
  session.run_targets({spread.init});
  alone.run_targets({together.init});
  for (int step = 0; step < 3; ++step)
    expect_equal(session.run({{spread.x, kX}}, {spread.a, spread.b, spread.c, spread.w.read()}),
                 alone.run({{together.x, kX}}, {together.a, together.b, together.c, together.w.read()}));
  const std::string plan = session.explain({spread.x}, {spread.a, spread.b, spread.c});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(plan, HasSubstr(worker(i)));
}

TEST_F(ThreeNodes, StepsRunWhileAnotherSignatureIsRegisteredOnAStoppedOne) {
  Pipeline p({worker(0), worker(1), worker(2)});
  auto session = std::make_unique<Session>(client_, p.graph);
  session->run_targets({p.init});
  session->run({{p.x, kX}}, p.a);
  nodes_.at(1).signal(SIGSTOP);
  auto registering = std::async(std::launch::async, [&]() -> std::string {
    try {
      session->run({{p.x, kX}}, p.h);
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  });
  const auto& client = client_.introspection().client();
  EXPECT_TRUE(testing::eventually([&] { return !client.waiting("").waits.empty(); }));
  for (int i = 0; i < 10; ++i) session->run({{p.x, kX}}, p.a);
  EXPECT_EQ(registering.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  auto closing = std::async(std::launch::async, [&] { session.reset(); });
  EXPECT_EQ(registering.get(), "the session is closed");
  nodes_.at(1).signal(SIGCONT);
  closing.get();
  Session next(client_, p.graph);
  next.run_targets({p.init});
  next.run({{p.x, kX}}, p.h);
}

TEST_F(ThreeNodes, AnEdgeBetweenThemCanBeFed) {
  Pipeline p({worker(0), worker(1), worker(2)});
  Session session(client_, p.graph);
  session.run_targets({p.init});
  // From the first to the second, without x: nothing before it runs.
  EXPECT_EQ(session.run({{p.a, Tensor::zeros(DType::f32, {2, 3})}}, p.h).to_string(),
            Tensor::zeros(DType::f32, {2, 3}).to_string());
  // From the second to the third.
  const Tensor b = Tensor::of<float>({2, 3}, {1, 2, 3, 10, 20, 30});
  EXPECT_TRUE(bitwise_equal(session.run({{p.b, b}}, p.c), Tensor::vector<float>({11, 22, 33})));
  EXPECT_TRUE(bitwise_equal(session.run(p.total.read()), Tensor::vector<float>({11, 22, 33})));
}

TEST_F(ThreeNodes, TheClientExtendsItsSession) {
  Pipeline p({worker(0), worker(1), worker(2)});
  Session session(client_, p.graph);
  session.run_targets({p.init});
  const Tensor before = session.run(p.w.read());
  Output twice;
  {
    const auto device = p.graph.on_device(worker(2));
    twice = p.w.read() * 2.0;
  }
  session.extend(p.graph);
  const Tensor after = session.run(twice);
  for (std::int64_t i = 0; i < before.num_elements(); ++i)
    EXPECT_EQ(after.data<float>()[i], 2 * before.data<float>()[i]) << "the variable kept its value";
}

TEST_F(ThreeNodes, ALostTaskEndsTheStepAndIsNamed) {
  Pipeline p({worker(0), worker(1), worker(2)});
  Session session(client_, p.graph);
  session.run_targets({p.init});
  nodes_.at(1).signal(SIGKILL);
  EXPECT_EQ(nodes_.at(1).wait(), -SIGKILL);
  try {
    // The loss may be noticed after a step has begun, but no step can end well.
    session.run({{p.x, kX}}, p.c);
    FAIL() << "the step ended well without one of its tasks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_THAT(error.message(), HasSubstr(worker(1)));
  }
  nodes_.erase(1);
}

TEST_F(ThreeNodes, TwoClientsDoNotShareVariables) {
  Pipeline p({worker(0), worker(1), worker(2)}), q({worker(0), worker(1), worker(2)});
  Session first(client_, p.graph), second(client_, q.graph);
  first.run_targets({p.init});
  second.run_targets({q.init});
  const Tensor b = Tensor::of<float>({2, 3}, {1, 1, 1, 1, 1, 1});
  first.run({{p.b, b}}, p.c);
  EXPECT_TRUE(bitwise_equal(second.run({{q.b, b}}, q.c), Tensor::vector<float>({2, 2, 2})));
}

// ---- Clusters that cannot be ---------------------------------------------------------------------------------------

TEST(WrongCluster, ATaskThatIsNotInTheFileIsToldWhichAre) {
  TemporaryDirectory directory;
  Process process(node(2, directory.write("c.json", json_of(free_ports(2)))));
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err, HasSubstr("/job:worker/task:2"));
  EXPECT_THAT(process.err, HasSubstr("/job:worker/task:1"));
}

TEST(WrongCluster, ABusyPortIsNamed) {
  const int busy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(busy, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(busy, 1), 0);
  ASSERT_EQ(getsockname(busy, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  TemporaryDirectory directory;
  Process process(node(0, directory.write("c.json", json_of({port, free_ports(1)[0]}))));
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err, HasSubstr(fmt::format("127.0.0.1:{}: the port is in use", port)));
  close(busy);
}

// The second calls the first, which goes on waiting for the right one.
void expect_refused(const std::string& name, const std::string& token) {
  TemporaryDirectory directory;
  const std::vector<int> ports = free_ports(2);
  const std::vector<std::string> one = node(0, directory.write("a.json", json_of(ports)));
  const std::vector<std::string> other = node(1, directory.write("b.json", json_of(ports, name, token)));
  // The first may give up before the second calls.
  EXPECT_TRUE(holds_with_more_time(std::chrono::seconds(2), [&](std::chrono::milliseconds limit) {
    Process first(with_limit(one, "--join-timeout", limit));
    first.wait_for("waits for");
    Process second(with_limit(other, "--join-timeout", limit));
    EXPECT_EQ(second.wait(), 1);
    EXPECT_EQ(first.wait(), 1);
    EXPECT_THAT(first.err, HasSubstr("no link came up to /job:worker/task:1"));
    if (first.err.find("turned away: ") == std::string::npos) return false;
    const std::string at = "127.0.0.1:" + std::to_string(ports[0]);
    const std::string message = "wrong token or cluster, or not the task listed at " + at +
                                " in the cluster file: all tasks need the same cluster file";
    EXPECT_THAT(first.err,
                HasSubstr("turned away: /job:worker/task:1 closed the connection without authenticating: " + message));
    EXPECT_THAT(second.err, HasSubstr("/job:worker/task:0 at " + at + ": " + message));
    return true;
  }));
}

TEST(WrongCluster, AnotherTokenIsRefusedAndBothSidesSaySo) { expect_refused("demo", "guess"); }

TEST(WrongCluster, ATaskOfAnotherClusterIsRefusedAndBothSidesSaySo) { expect_refused("other", "secret"); }

TEST(WrongCluster, AClientWithAnotherTokenIsRefused) {
  TemporaryDirectory directory;
  const std::vector<int> ports = free_ports(1);
  Process process(node(0, directory.write("c.json", json_of(ports))));
  process.wait_for("is ready at");
  Task client({.name = {"client", 0}, .networked = true});
  try {
    client.join(ClusterSpec::parse(json_of(ports, "demo", "guess"), "here"), testing::kPatience);
    FAIL() << "it was let in";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unauthenticated) << error.message();
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 143) << "the node is not impressed";
}

}  // namespace
}  // namespace troupe
