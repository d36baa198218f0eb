// troupe-top records a cluster of real processes while it trains; or troupe-mnist does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/training_trace.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using testing::Arguments;
using testing::Cluster;
using ::testing::HasSubstr;
using testing::Process;
using testing::TemporaryDirectory;

// "HOST:PORT", "--cluster", "FILE": as the launcher says.
Arguments whom_to_ask(Cluster& cluster) {
  cluster->wait_for("watch the cluster with");
  cluster->wait_for("\"event\":\"epoch\"");
  static const std::regex line("watch the cluster with: troupe-top (\\S+) --cluster (\\S+)");
  std::smatch found;
  return std::regex_search(cluster->err, found, line) ? Arguments{found[1], "--cluster", found[2]} : Arguments{};
}

struct Ended {
  int code;
  std::string err;
};
Ended run(Arguments command, const Arguments& more) {
  command.insert(command.end(), more.begin(), more.end());
  Process process(command);
  const int code = process.wait();
  return {code, process.err};
}

// Records it with these options, and has the file checked.
Ended trace(Cluster& cluster, const Arguments& options, const Arguments& conditions) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "trace.json";
  Arguments whom = whom_to_ask(cluster);
  whom.insert(whom.begin(), testing::program("troupe-top"));
  whom.insert(whom.end(), {"--trace", path});
  const Ended top = run(whom, options);
  EXPECT_EQ(top.code, 0) << top.err;
  const Ended checked = run({"/usr/bin/python3", testing::source_file("tools/check_trace.py"), path}, conditions);
  EXPECT_EQ(checked.code, 0) << checked.err;
  return top;
}

void end(Cluster& cluster) {
  cluster->signal(SIGTERM);
  EXPECT_EQ(cluster.wait(), 143) << cluster->err;
}

const Arguments kTraining{"--epochs", "1000000", "--digits", "600,100"};

TEST(TraceOfACluster, OfParameterServersAndWorkersIsWholeAndItsArrowsCross) {
  Cluster cluster(2, 2, kTraining);
  const Ended top = trace(cluster, {"--steps", "10"}, {"--tasks", "4", "--steps", "10", "--across"});
  EXPECT_THAT(top.err, HasSubstr("10 of 10 steps"));
  EXPECT_THAT(top.err, HasSubstr("ui.perfetto.dev"));
  end(cluster);
}

// Any step takes longer than a microsecond.
TEST(TraceOfACluster, ASlowStepIsWrittenWithThoseBefore) {
  Cluster cluster(1, 2, kTraining);
  const Ended top = trace(cluster, {"--trace-slower-than", "0.001", "--steps", "3"}, {"--steps", "1", "--lossy"});
  EXPECT_THAT(top.err, ::testing::ContainsRegex("step [0-9]+ of /job:worker/task:[01] took"));
  end(cluster);
}

// By the option of troupe-mnist, which goes on after it; the file is checked.
void trace_itself(Process& training, const std::string& path, const Arguments& conditions) {
  training.wait_for("ui.perfetto.dev shows it");
  const Ended checked = run({"/usr/bin/python3", testing::source_file("tools/check_trace.py"), path}, conditions);
  EXPECT_EQ(checked.code, 0) << checked.err;
}

TEST(TraceOfATraining, OfOneProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "trace.json";
  Arguments command{testing::program("troupe-mnist"), "--json", "--trace", path, "--trace-steps", "5"};
  command.insert(command.end(), kTraining.begin(), kTraining.end());
  Process training(command);
  trace_itself(training, path, {"--tasks", "1", "--steps", "5"});
  training.signal(SIGTERM);
  EXPECT_EQ(training.wait(), 143) << training.err;
}

TEST(TraceOfATraining, OfAllTasksOfACluster) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "trace.json";
  Arguments options{"--trace", path, "--trace-steps", "5"};
  options.insert(options.end(), kTraining.begin(), kTraining.end());
  Cluster cluster(1, 2, options);
  trace_itself(*cluster.operator->(), path, {"--tasks", "3", "--steps", "5", "--across"});
  end(cluster);
}

TEST(TraceOfATraining, ThatDoesNotBeginSaysSo) {
  const TemporaryDirectory directory;
  Task task({.threads = 1});
  std::string said;
  TrainingTrace trace(task,
                      {.path = directory.path() / "trace.json", .say = [&](const std::string& text) { said += text; }});
  EXPECT_FALSE(trace.end());
  EXPECT_EQ(said, "--trace: training ended before anything was recorded");
}

TEST(TraceOfATraining, AWrongPathIsSaidBeforeItBegins) {
  const Ended ended = run({testing::program("troupe-mnist"), "--trace", "/nonexistent/trace.json"}, {});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("cannot write '/nonexistent/trace.json'"));
  EXPECT_EQ(run({testing::program("troupe-mnist"), "--trace-steps", "3"}, {}).code, 2);
}

TEST(TraceOfACluster, AWrongPathIsSaidBeforeAnythingIsRecorded) {
  const Ended top = run({testing::program("troupe-top"), "127.0.0.1:1"}, {"--trace", "/nonexistent/trace.json"});
  EXPECT_EQ(top.code, 1);
  EXPECT_THAT(top.err, HasSubstr("cannot write '/nonexistent/trace.json'"));
  EXPECT_EQ(run({testing::program("troupe-top"), "127.0.0.1:1"}, {"--trace", "trace.json", "--json"}).code, 2);
  EXPECT_EQ(run({testing::program("troupe-top"), "127.0.0.1:1"}, {"--steps", "3"}).code, 2);
}

}  // namespace
}  // namespace troupe
