// Why clusters of real processes wait: troupe-top --why names the right culprit each time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <regex>

#include "tests/apps/cluster.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/processes/child.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::Cluster;
using ::testing::ContainsRegex;
using testing::eventually;
using testing::free_ports;
using ::testing::HasSubstr;
using testing::Process;
using testing::TemporaryDirectory;
using testing::TwoNetworks;

using Says = ::testing::Matcher<const std::string&>;

// Asks troupe-top until the answer is as expected: a busy machine may make tasks late.
void expect_why(const std::string& file, const Says& says,
                const std::function<Arguments(const Arguments&)>& wrap = nullptr) {
  const Arguments command = {testing::program("troupe-top"), "--cluster", file, "--why",
                             "--insecure"};  // insecure: addresses of other networks
  std::string said;
  eventually([&] {
    Process top(wrap ? wrap(command) : command);
    top.wait();
    said = top.out + top.err;
    return says.Matches(said);
  });
  EXPECT_THAT(said, says);
}

// The first cause, and that somebody waits for a slot because of it.
Says silent(const std::string& task, const std::string& why) {
  return ContainsRegex(fmt::format(
      "\n1. SILENT {} does not answer \\({}\\)[^\n]*\n(   [^\n]*\n)*     waits for [^\n]*slot [0-9]+ of step ", task,
      why));
}

const char* const kStopped = "no answer within 0.9 s: it is stopped, too busy or unreachable";

// ---- Launched ------------------------------------------------------------------------------------------------------

std::string file_of(Cluster& cluster) {
  cluster->wait_for("watch the cluster with");
  std::smatch found;
  EXPECT_TRUE(
      std::regex_search(cluster->err, found, std::regex("watch the cluster with: troupe-top \\S+ --cluster (\\S+)\n")))
      << cluster->err;
  return found.str(1);
}

TEST(WhyInACluster, AStoppedWorkerIsNamed) {
  Cluster cluster(1, 3, {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100"});
  cluster->wait_for("\"event\":\"epoch\"");
  const pid_t worker = cluster.pid("worker/1");
  testing::stop_process(worker);
  expect_why(file_of(cluster), silent("worker/1", kStopped));
  kill(worker, SIGCONT);
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 128 + SIGTERM) << cluster->err;
}

TEST(WhyInACluster, AStoppedShardIsNamed) {
  Cluster cluster(2, 2, {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100"});
  cluster->wait_for("\"event\":\"epoch\"");
  const pid_t shard = cluster.pid("ps/1");
  testing::stop_process(shard);
  expect_why(file_of(cluster), silent("ps/1", kStopped));
  kill(shard, SIGCONT);
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 128 + SIGTERM) << cluster->err;
}

TEST(WhyInACluster, ALostWorkerThatOthersWaitForIsNamed) {
  Cluster cluster(
      1, 2,
      {"--mode", "sync", "--epochs", "100000", "--digits", "2000,100", "--peer-timeout", "4", "--on-loss", "wait"});
  cluster->wait_for("\"event\":\"epoch\"");
  const pid_t worker = cluster.pid("worker/1");
  testing::stop_process(worker);
  expect_why(file_of(cluster),
             AllOf(HasSubstr("SILENT worker/1 does not answer"),
                   HasSubstr("worker/1 to join again: it was lost: its token is reserved for another ")));
  kill(worker, SIGCONT);
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 128 + SIGTERM) << cluster->err;
}

// ---- By hand -------------------------------------------------------------------------------------------------------

// Tasks of troupe-mnist that train until they are told to end.
class WhyByHand : public ::testing::Test {
 protected:
  void make(int ps, int workers) {
    const std::vector<int> ports = free_ports(ps + workers);
    const auto list = [&](int from, int count) {
      std::string out;
      for (int i = from; i < from + count; ++i)
        out += fmt::format("{}\"127.0.0.1:{}\"", out.empty() ? "" : ",", ports[static_cast<std::size_t>(i)]);
      return out;
    };
    file = directory.write(
        "c.json", fmt::format(R"({{"name":"c","token":"t","ps":[{}],"worker":[{}]}})", list(0, ps), list(ps, workers)));
  }
  Arguments command(const std::string& job, int index, const Arguments& more = {}) const {
    Arguments all = {testing::program("troupe-mnist"),
                     "--mode",
                     "sync",
                     "--epochs",
                     "1000000",
                     "--digits",
                     "2000,100",
                     "--json",
                     "--threads",
                     "1",
                     "--join-timeout",
                     "1000",
                     "--job",
                     job,
                     "--task",
                     std::to_string(index),
                     "--cluster",
                     file};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Process& start(const std::string& job, int index, const Arguments& more = {}) {
    return *running.emplace_back(std::make_unique<Process>(command(job, index, more)));
  }
  ~WhyByHand() override {
    for (const auto& process : running) process->signal(SIGKILL);
    for (const auto& process : running) process->wait();
  }

  TemporaryDirectory directory;
  std::string file;
  std::vector<std::unique_ptr<Process>> running;
};

TEST_F(WhyByHand, AKilledWorkerIsNamedUntilItComesAgain) {
  make(1, 2);
  const Arguments waits = {"--on-loss", "wait", "--rejoin-timeout", "1000"};
  start("ps", 0, waits);
  Process& chief = start("worker", 0, waits);
  Process& killed = start("worker", 1, waits);
  chief.wait_for("\"event\":\"epoch\"");
  killed.signal(SIGKILL);
  expect_why(file,
             AllOf(ContainsRegex("\n1. SILENT worker/1 does not answer \\(nobody listens [^\n]*: it has ended\\)"),
                   HasSubstr("worker/1 to join again: it was lost: its token is reserved for another ")));
  start("worker", 1, waits);
  expect_why(file, HasSubstr("Nothing is stuck"));
}

TEST_F(WhyByHand, NobodyIsLeftToTrain) {
  make(1, 1);
  start("ps", 0);
  Process& only = start("worker", 0);
  only.wait_for("\"event\":\"epoch\"");
  only.signal(SIGKILL);
  expect_why(
      file,
      HasSubstr("\n1. NEVER no worker is left: the job cannot continue until one joins; start one (it gives up in "));
}

TEST_F(WhyByHand, AJobNeedsMoreWorkersThanThereAre) {
  make(1, 4);
  const Arguments three = {"--min-workers", "3"};
  start("ps", 0, three);
  for (const int worker : {0, 1}) start("worker", worker, three);
  expect_why(file, AllOf(HasSubstr("SILENT worker/2 does not answer (no link yet to 127.0.0.1:"),
                         HasSubstr("SILENT worker/3 does not answer (no link yet to 127.0.0.1:"),
                         HasSubstr("     waits for worker/2 to join the job: training begins with 3 workers, "
                                   "and 2 have joined; start more, or start the job with fewer\n")));
}

TEST_F(WhyByHand, AParameterServerThatNobodyHasStarted) {
  make(1, 2);
  for (const int worker : {0, 1}) start("worker", worker);
  expect_why(file, ContainsRegex("SILENT ps/0 does not answer \\(no link yet to 127.0.0.1:[^\n]*\n"
                                 "   worker/[01], which connects to its cluster, for [^\n]*\n     waits for a link "
                                 "to ps/0[^\n]*\n     which is on ps/0\n"));
}

// Nothing passes between two networks any more, and nobody is told.
TEST_F(WhyByHand, AWorkerThatIsCutOff) {
  TwoNetworks networks;
  if (!networks.possible()) GTEST_SKIP() << "network namespaces cannot be made here: needs root and ip (iproute2)";
  file = directory.write(
      "c.json", fmt::format(R"({{"name":"c","token":"{2}","ps":["{0}:7701"],"worker":["{0}:7711","{1}:7712"]}})",
                            networks.address(0), networks.address(1), testing::kStrongToken));
  const auto start_in = [&](int side, const char* job, int index) -> Process& {
    return *running.emplace_back(
        std::make_unique<Process>(networks.in(side, command(job, index, {"--insecure", "--peer-timeout", "100"}))));
  };
  start_in(0, "ps", 0);
  Process& chief = start_in(0, "worker", 0);
  start_in(1, "worker", 1);
  chief.wait_for("\"event\":\"epoch\"");
  ASSERT_TRUE(networks.cut());
  expect_why(file, silent("worker/1", "[^\n]*"), [&](const Arguments& command) { return networks.in(0, command); });
}

// ---- Nodes ---------------------------------------------------------------------------------------------------------

// Two processes, and a client here.
class WhyOfAClient : public ::testing::Test {
 protected:
  WhyOfAClient() {
    const std::vector<int> ports = free_ports(2);
    file = directory.write(
        "c.json",
        fmt::format(R"({{"name":"c","token":"t","worker":["127.0.0.1:{}","127.0.0.1:{}"]}})", ports[0], ports[1]));
    for (const char* index : {"0", "1"})
      nodes.push_back(
          std::make_unique<Process>(Arguments{testing::program("troupe-node"), "--job", "worker", "--task", index,
                                              "--cluster", file, "--peer-timeout", "100", "--in-flight", "512KiB"}));
    for (const auto& node : nodes) node->wait_for("is ready at");
    client.join(ClusterSpec::read(file), std::chrono::seconds(60));
    const auto scope = graph.on_device("/job:worker/task:1");
    y = neg(x, "y");
  }
  ~WhyOfAClient() override {
    nodes[1]->signal(SIGCONT);
    EXPECT_TRUE(client.shutdown(std::chrono::seconds(60)));
    for (const auto& node : nodes) node->signal(SIGTERM);
    for (const auto& node : nodes) EXPECT_EQ(node->wait(), 128 + SIGTERM) << node->err;
  }

  TemporaryDirectory directory;
  std::string file;
  std::vector<std::unique_ptr<Process>> nodes;
  Graph graph;
  Output x = placeholder(graph, DType::f32, {kUnknown}, "x"), y;
  Task client{{.name = {"client", 0},
               .networked = true,
               .network = {.in_flight = 512 << 10, .peer_timeout = std::chrono::seconds(100)}}};
};

TEST_F(WhyOfAClient, AStoppedTaskIsToBuildItsPartOfAGraph) {
  Session session(client, graph);
  nodes[1]->signal(SIGSTOP);
  auto compiling = std::async(std::launch::async, [&] { return session.callable({x}, {y}); });
  expect_why(file, ContainsRegex("SILENT worker/1 does not answer [^\n]*\n"
                                 "   a client on client/0, for [^\n]*\n     waits for worker/1 to "
                                 "build its part of the graph, for [^\n]*\n"
                                 "     which is on worker/1\n"));
  nodes[1]->signal(SIGCONT);
  EXPECT_TRUE(bitwise_equal(compiling.get()({Tensor::vector<float>({1, 2})})[0], Tensor::vector<float>({-1, -2})));
}

// What is larger than a peer may have on its way waits for room, which a stopped one does not give.
TEST_F(WhyOfAClient, AStoppedTaskTakesNothingMoreFromItsLink) {
  Session session(client, graph);
  const Callable call = session.callable({x}, {y});
  nodes[1]->signal(SIGSTOP);
  auto running = call.async({Tensor::zeros(DType::f32, {4 << 20})});
  expect_why(file,
             ContainsRegex("SILENT worker/1 does not answer [^\n]*\n   step 1 of session [0-9a-f]+ on client/0, for "
                           "[^\n]*\n     waits for the part of step 1 of session [0-9a-f]+ on worker/1"));
  LinkSnapshot link;
  eventually([&] {
    const ClusterSnapshot cluster = client.introspection().view().snapshot();
    for (const TaskReport& report : cluster.tasks)
      if (report.task == "/job:client/task:0")
        for (const LinkSnapshot& seen : report.snapshot->links)
          if (seen.peer == "/job:worker/task:1") link = seen;
    return link.stalled && link.credit == 0;
  });
  EXPECT_TRUE(link.stalled);
  EXPECT_EQ(link.credit, 0u);
  EXPECT_EQ(link.window, 512u << 10);
  EXPECT_GT(link.queued_bytes, (16u << 20) - (2u << 20));
  nodes[1]->signal(SIGCONT);
  EXPECT_EQ(running.get()[0].shape(), Shape({4 << 20}));
}

}  // namespace
}  // namespace troupe
