// troupe-top beside a cluster that trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>

#include "tests/apps/cluster.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/processes/child.hpp"
#include "tests/tools/pseudo_terminal.hpp"
#include "tools/top/observation.hpp"
#include "tools/top/text.hpp"
#include <troupe/actors/network/cluster_spec.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::Not;
using testing::Process;
using testing::PseudoTerminal;

// Two ps tasks and three workers that train until they are told to end.
class TopCluster : public ::testing::Test {
 protected:
  TopCluster() : cluster_(2, 3, {"--epochs", "1000000", "--digits", "600,100"}) {
    cluster_->wait_for("\"event\":\"epoch\"");
    cluster_->wait_for("watch the cluster with");
    std::smatch found;
    const std::regex line("watch the cluster with: troupe-top (\\S+) --cluster (\\S+)\n");
    EXPECT_TRUE(std::regex_search(cluster_->err, found, line));
    address_ = found.str(1);
    file_ = found.str(2);
  }
  ~TopCluster() override {
    cluster_->signal(SIGINT);
    cluster_.wait();
  }

  Arguments command(Arguments options) {
    options.insert(options.begin(), testing::program("troupe-top"));
    return options;
  }
  // What troupe-top prints when it is as expected: a busy machine may make tasks late.
  std::string ask(const Arguments& options, const std::function<bool(const std::string&)>& expected) {
    std::string out, err;
    EXPECT_TRUE(eventually([&] {
      Process top(command(options));
      const int code = top.wait();
      out = top.out;
      err = top.err;
      return code == 0 && expected(out);
    })) << out
        << err;
    return out;
  }
  std::string page_with(const std::string& text, Arguments options) {
    options.insert(options.end(), {"--once", "--interval", "0.25"});
    return ask(options, [&](const std::string& page) { return page.find(text) != std::string::npos; });
  }

  Cluster cluster_;
  std::string address_, file_;
};

TEST_F(TopCluster, ListsEveryActorOfEveryTask) {
  const ClusterSnapshot snapshot =
      parse_cluster_snapshot(ask({address_, "--cluster", file_, "--json"}, [](const std::string& out) {
        const ClusterSnapshot all = parse_cluster_snapshot(out);
        return all.asked == "/job:worker/task:0" && std::ranges::all_of(all.tasks, &TaskReport::answered);
      }));
  ASSERT_EQ(snapshot.tasks.size(), 5u);
  const std::string page = page_with("tasks      5 answer\n", {"--cluster", file_});  // any task
  for (const TaskReport& report : snapshot.tasks) {
    ASSERT_TRUE(report.snapshot) << report.task << ": " << report.error;
    std::set<std::string> kinds;
    for (const ActorSnapshot& actor : report.snapshot->actors) kinds.insert(actor.kind);
    std::vector<std::string> expected = {"node",       "scheduler", "device",      "rendezvous",
                                         "collective", "peer",      "introspector"};
    if (report.task.starts_with("/job:ps/")) expected.push_back("shard");
    if (report.task == "/job:ps/task:0") expected.push_back("coordinator");
    if (report.task.starts_with("/job:worker/")) expected.insert(expected.end(), {"partition", "worker"});
    EXPECT_THAT(expected, IsSubsetOf(kinds)) << report.task;
    EXPECT_EQ(report.snapshot->links.size(), 4u) << report.task;
    const std::string task = report.task.substr(5, report.task.find("/task:") - 5) + "/" +
                             report.task.substr(report.task.find("/task:") + 6);
    for (const std::string& kind : expected)
      EXPECT_TRUE(std::regex_search(page, std::regex("\n " + task + " +" + kind))) << task << " " << kind;
  }
  EXPECT_THAT(page, AllOf(HasSubstr("job        sync, "), HasSubstr("images/s")));
}

TEST_F(TopCluster, AStoppedTaskIsShownAndAnotherIsAsked) {
  testing::stop_process(cluster_.pid("worker/0"));  // whose address is the one that troupe-launch says
  const std::string page = page_with("4 answer, 1 SILENT", {address_, "--cluster", file_});
  kill(cluster_.pid("worker/0"), SIGCONT);
  EXPECT_THAT(page, AllOf(HasSubstr("worker/0 SILENT"), HasSubstr("asked "), Not(HasSubstr("asked worker/0"))));
}

// A task proves its address as the cluster file spells it: with another spelling, the file's own addresses are asked.
TEST_F(TopCluster, AnotherSpellingOfAnAddressIsNoProof) {
  const std::string port = address_.substr(address_.find(':'));
  const std::string page = page_with("5 answer", {"localhost" + port, "--cluster", file_});
  EXPECT_THAT(page, HasSubstr("asked ps/0"));  // the first of the file; address_ is worker/0's
}

TEST_F(TopCluster, IsShownLiveInATerminal) {
  PseudoTerminal terminal(command({address_, "--cluster", file_, "--interval", "0.25"}),
                          {{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}});
  terminal.wait_for("images/s   ");  // the curve of several answers
  terminal.type("a/shard\r");
  terminal.wait_for("filter \"shard\": ");
  terminal.type("\r");
  terminal.wait_for("messages handled, by type");
  terminal.type("w");
  terminal.wait_for("[6 Why]");
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
}

// What troupe-launch prints is the address of a worker, which has no parameters.
TEST_F(TopCluster, ProvenanceIsFoundFromTheAddressThatTheLauncherPrints) {
  const auto both = [](const std::string& out) {
    return out.find("/job:ps/task:0, job ") != std::string::npos &&
           out.find("/job:ps/task:1, job ") != std::string::npos;
  };
  ask({address_, "--cluster", file_, "--provenance", "1"}, both);
  const std::string ps = ClusterSpec::read(file_).tasks.at({"ps", 1}).to_string();
  EXPECT_FALSE(both(ask({ps, "--cluster", file_, "--provenance", "1"},
                        [](const std::string& out) { return out.find("/job:ps/task:1, job ") != std::string::npos; })));
}

TEST_F(TopCluster, APageIsNoWiderThanALogAndPartitionsAreOneRow) {
  const std::string page = page_with("5 answer", {address_, "--cluster", file_});
  for (const std::string& line : top::wrap(page, 0)) EXPECT_LE(top::width(line), 120u) << line;
  EXPECT_TRUE(std::regex_search(page, std::regex("worker/0 +partition CPU:0 ×[2-9]"))) << page;
  const std::string why = ask({address_, "--cluster", file_, "--why"},
                              [](const std::string& text) { return text.starts_with("Nothing is stuck: "); });
  EXPECT_LE(std::ranges::count(why, '\n'), 6) << why;
  EXPECT_FALSE(std::regex_search(why, std::regex("slot/|/job:"))) << why;
}

TEST_F(TopCluster, TheTokenIsAskedFor) {
  Process without(command({address_, "--once"}));
  EXPECT_EQ(without.wait(), 1);
  EXPECT_THAT(without.err, HasSubstr("pass the cluster file with --cluster"));
}

TEST(TopCluster0, WhoIsNotThereIsNamed) {
  const int port = testing::free_ports(1).front();
  testing::TemporaryDirectory directory;
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const std::string file = directory.write("c.json", R"({"name":"c","token":"t","worker":[")" + address + "\"]}");
  for (const char* how : {"--once", "--json", "--why"}) {
    SCOPED_TRACE(how);
    Process nobody({testing::program("troupe-top"), "--cluster", file, how});
    EXPECT_EQ(nobody.wait(), 1);
    EXPECT_THAT(nobody.err, AllOf(HasSubstr("no task answers"), HasSubstr(address)));
    EXPECT_EQ(nobody.out, "");
  }
}

}  // namespace
}  // namespace troupe
