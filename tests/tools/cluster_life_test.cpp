// What troupe-launch makes of the ends of its tasks, without processes and in virtual time.
#include "tools/launch/cluster_life.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Phase = ClusterLife::Phase;
using std::chrono::milliseconds;
using std::chrono::seconds;

int ended_with(int code) { return code << 8; }  // as of waitpid()
int killed_by(int signal) { return signal; }

class LaunchedCluster {
 public:
  LaunchedCluster(int ps, int workers, LaunchOptions options = {}) : options_(std::move(options)) {
    options_.ps = ps;
    options_.workers = workers;
    life_.emplace(options_, now_, [this](const std::string& text) { said += text + "\n"; });
  }

  ClusterLife* operator->() { return &*life_; }

  LaunchedCluster& report_all() {
    for (std::size_t i = 0; i < life_->tasks(); ++i) life_->reported(i, fmt::format("127.0.0.1:{}", 7000 + i), now_);
    EXPECT_EQ(life_->phase(), Phase::running);
    return *this;
  }
  void end(const std::string& task, int status) { life_->ended(number(task), status, now_); }
  void end_rest(int status) {
    for (std::size_t i = 0; i < life_->tasks(); ++i)
      if (life_->running(i)) life_->ended(i, status, now_);
  }
  void pass(ClusterLife::Clock::duration time) {
    now_ += time;
    life_->pass_time(now_);
  }
  std::vector<std::string> due() {
    std::vector<std::string> tasks;
    for (const std::size_t task : life_->take_due(now_)) tasks.push_back(life_->name(task));
    return tasks;
  }
  std::string chief() { return life_->name(life_->chief()); }
  int exit_code() {
    EXPECT_TRUE(life_->over());
    return life_->exit_code();
  }

  std::string said;

 private:
  std::size_t number(const std::string& task) {
    for (std::size_t i = 0; i < life_->tasks(); ++i)
      if (life_->name(i) == task) return i;
    ADD_FAILURE() << task;
    return 0;
  }

  LaunchOptions options_;
  ClusterLife::Clock::time_point now_{};
  std::optional<ClusterLife> life_;
};

// ---- While the job goes on, so does the cluster --------------------------------------------------------------------

TEST(ClusterLife, GoesOnWithoutAWorkerThatIsKilledAndEndsWithTheCodeOfTheChief) {
  LaunchedCluster cluster(1, 3);
  cluster.report_all().end("worker/1", killed_by(SIGKILL));
  EXPECT_EQ(cluster->phase(), Phase::running);
  EXPECT_FALSE(cluster->next()) << "nobody has to end";
  EXPECT_THAT(cluster.said, AllOf(HasSubstr("worker/1 was killed by signal 9"),
                                  HasSubstr("the other tasks may continue without worker/1 (--fail-fast ends them)")));
  cluster.end("worker/0", ended_with(0));
  EXPECT_EQ(cluster->phase(), Phase::ending);
  cluster.end_rest(ended_with(0));
  EXPECT_EQ(cluster.exit_code(), 0);
}

TEST(ClusterLife, GoesOnWithoutAnInputTaskWhateverItsEnd) {
  for (const int status : {killed_by(SIGKILL), ended_with(1)}) {
    LaunchedCluster cluster(1, 2, {.inputs = 2});
    EXPECT_EQ(cluster.report_all().chief(), "worker/0");
    cluster.end("input/0", status);
    EXPECT_EQ(cluster->phase(), Phase::running);
    EXPECT_EQ(cluster.chief(), "worker/0");
    EXPECT_THAT(cluster.said, HasSubstr("the other tasks may continue without input/0"));
    cluster.end("worker/0", killed_by(SIGKILL));
    EXPECT_EQ(cluster.chief(), "worker/1");
    cluster.end("worker/1", ended_with(0));
    cluster.end_rest(ended_with(0));
    EXPECT_EQ(cluster.exit_code(), 0);
  }
}

TEST(ClusterLife, GoesOnWithAnotherChiefWhenTheFirstIsKilled) {
  LaunchedCluster cluster(1, 3);
  cluster.report_all().end("worker/0", killed_by(SIGKILL));
  EXPECT_EQ(cluster->phase(), Phase::running);
  EXPECT_EQ(cluster.chief(), "worker/1");
  EXPECT_THAT(cluster.said, HasSubstr("with worker/1 as the chief"));
  cluster.end("worker/1", killed_by(SIGSEGV));
  EXPECT_EQ(cluster.chief(), "worker/2");
  cluster.end("worker/2", ended_with(0));
  cluster.end("ps/0", ended_with(0));
  EXPECT_EQ(cluster.exit_code(), 0);
}

TEST(ClusterLife, EndsWithTheCodeOfTheFirstChiefIfTheJobDidNotSurviveIt) {
  LaunchedCluster cluster(1, 2);
  cluster.report_all().end("worker/0", killed_by(SIGKILL));
  cluster.end("worker/1", ended_with(1));
  EXPECT_EQ(cluster->phase(), Phase::asked);
  cluster.end_rest(killed_by(SIGTERM));
  EXPECT_EQ(cluster.exit_code(), 128 + SIGKILL);
}

TEST(ClusterLife, NobodyTakesThePlaceOfAChiefThatFailsByItsOwnDecision) {
  for (const int status : {ended_with(3), killed_by(SIGABRT)}) {
    SCOPED_TRACE(::testing::Message() << "status " << status);
    LaunchedCluster cluster(1, 2);
    cluster.report_all().end("worker/0", status);
    EXPECT_EQ(cluster->phase(), Phase::asked);
    cluster.end_rest(ended_with(0));
    EXPECT_EQ(cluster.exit_code(), status == ended_with(3) ? 3 : 128 + SIGABRT);
  }
}

TEST(ClusterLife, NobodyTakesThePlaceOfAChiefThatIsKilledWhenTheJobIsOver) {
  LaunchedCluster cluster(1, 3);
  cluster.report_all().end("worker/1", ended_with(0));
  cluster.end("worker/0", killed_by(SIGKILL));  // while it saved the model
  cluster.end_rest(ended_with(0));
  EXPECT_EQ(cluster.exit_code(), 128 + SIGKILL);
}

TEST(ClusterLife, AWorkerThatEndsWithAnErrorEndsNobodyButWithFailFastAllOthers) {
  LaunchedCluster patient(1, 2), strict(1, 2, {.grace = seconds(4), .fail_fast = true});
  for (LaunchedCluster* cluster : {&patient, &strict}) cluster->report_all().end("worker/1", ended_with(3));
  EXPECT_EQ(patient->phase(), Phase::running);
  EXPECT_EQ(strict->phase(), Phase::ending);
  EXPECT_THAT(strict.said, HasSubstr("the other tasks have 4 s to end"));
  strict.pass(seconds(4));
  EXPECT_EQ(strict->phase(), Phase::asked);
  strict.end_rest(ended_with(143));
  EXPECT_EQ(strict.exit_code(), 1);
}

TEST(ClusterLife, AChiefThatIsKilledEndsAllOthersWithFailFast) {
  LaunchedCluster cluster(1, 2, {.fail_fast = true});
  cluster.report_all().end("worker/0", killed_by(SIGKILL));
  EXPECT_EQ(cluster->phase(), Phase::asked);
  cluster.end_rest(killed_by(SIGTERM));
  EXPECT_EQ(cluster.exit_code(), 128 + SIGKILL);
}

// They wait for it themselves, and say so: they are not cut off.
TEST(ClusterLife, ALostParameterServerEndsTheJobAfterTheTimeThatTasksWaitForIt) {
  LaunchedCluster cluster(2, 2, {.grace = seconds(10)});
  cluster.report_all().end("ps/1", killed_by(SIGKILL));
  EXPECT_EQ(cluster->phase(), Phase::ending);
  EXPECT_THAT(cluster.said, AllOf(HasSubstr("the job cannot continue without ps/1"), HasSubstr("--restart"),
                                  HasSubstr("the other tasks have 20 s to end")));
  cluster.pass(milliseconds(19'999));
  EXPECT_EQ(cluster->phase(), Phase::ending);
  cluster.pass(milliseconds(1));
  EXPECT_EQ(cluster->phase(), Phase::asked);
  cluster.pass(seconds(10));
  EXPECT_EQ(cluster->phase(), Phase::killed);
  cluster.end_rest(killed_by(SIGKILL));
  EXPECT_EQ(cluster.exit_code(), 1);
}

TEST(ClusterLife, AParameterServerThatFailsAtTheEndCountsAndAWorkerDoesNot) {
  for (const auto& [task, code] : {std::pair("ps/0", 1), std::pair("worker/1", 0)}) {
    LaunchedCluster cluster(1, 2);
    cluster.report_all().end("worker/0", ended_with(0));
    cluster.end(task, ended_with(2));
    cluster.end_rest(ended_with(0));
    EXPECT_EQ(cluster.exit_code(), code) << task;
  }
}

// ---- The start -----------------------------------------------------------------------------------------------------

// The chief is asked to end then; that it does so with 143 says nothing.
TEST(ClusterLife, ATaskThatFailsBeforeTheClusterIsCompleteMakesItOne) {
  for (const int status : {ended_with(0), ended_with(4), killed_by(SIGSEGV)}) {
    SCOPED_TRACE(::testing::Message() << "status " << status);
    LaunchedCluster cluster(1, 2);
    cluster->reported(0, "127.0.0.1:7000", {});
    cluster.end("worker/1", status);
    EXPECT_EQ(cluster->phase(), Phase::asked);
    cluster.end_rest(killed_by(SIGTERM));
    EXPECT_EQ(cluster.exit_code(), 1);
  }
}

TEST(ClusterLife, AnAppThatEndsWithoutHavingReportedIsToldHowTo) {
  LaunchedCluster cluster(0, 2);
  cluster->reported(1, "127.0.0.1:7001", {});
  cluster.end("worker/0", ended_with(0));
  EXPECT_THAT(cluster.said, AllOf(HasSubstr("worker/0 ended with exit code 0 before the cluster was complete\n"),
                                  HasSubstr("worker/0 had not reported its address: a Troupe program calls "
                                            "Task::from_command_line(argc, argv)")));
  LaunchedCluster other(0, 2);
  other->reported(1, "127.0.0.1:7001", {});
  other.end("worker/1", ended_with(1));
  EXPECT_THAT(other.said, Not(HasSubstr("from_command_line")));
}

TEST(ClusterLife, TasksThatHaveNotReportedAreNamedAfterFiveSecondsAndEndedAtTheTimeout) {
  LaunchedCluster cluster(1, 2, {.start_timeout = seconds(60)});
  cluster->reported(1, "127.0.0.1:7001", {});
  cluster.pass(milliseconds(4999));
  EXPECT_EQ(cluster.said, "");
  EXPECT_TRUE(cluster->next());
  cluster.pass(milliseconds(1));
  EXPECT_THAT(cluster.said, AllOf(HasSubstr("no address from ps/0, worker/1 for 5 s: a Troupe program calls "
                                            "Task::from_command_line(argc, argv)"),
                                  HasSubstr("60 s in all (--start-timeout)")));
  EXPECT_EQ(cluster->phase(), Phase::starting);
  cluster.said.clear();
  cluster.pass(milliseconds(54'999));
  EXPECT_EQ(cluster.said, "") << "said once";
  cluster.pass(milliseconds(1));
  EXPECT_THAT(cluster.said, HasSubstr("no address from ps/0, worker/1 within 60 s (--start-timeout)"));
  EXPECT_EQ(cluster->phase(), Phase::asked);
  cluster.end_rest(ended_with(0));
  EXPECT_EQ(cluster.exit_code(), 1);
}

TEST(ClusterLife, OfAllThatReportInTimeNobodyIsNamed) {
  LaunchedCluster cluster(1, 2);
  cluster.report_all().pass(seconds(1000));
  EXPECT_EQ(cluster.said, "");
}

// ---- Restarts ------------------------------------------------------------------------------------------------------

TEST(ClusterLife, ATaskIsStartedAgainAfterPausesThatDoubleUntilItHasFailedTooOften) {
  LaunchedCluster cluster(1, 2, {.restarts = 2});
  cluster.report_all().end("worker/1", killed_by(SIGKILL));
  cluster.pass(milliseconds(99));
  EXPECT_THAT(cluster.due(), ElementsAre());
  cluster.pass(milliseconds(1));
  EXPECT_THAT(cluster.due(), ElementsAre("worker/1"));
  cluster.end("worker/1", ended_with(1));
  cluster.pass(milliseconds(100));
  EXPECT_THAT(cluster.due(), ElementsAre());
  cluster.pass(milliseconds(100));
  EXPECT_THAT(cluster.due(), ElementsAre("worker/1"));
  cluster.end("worker/1", ended_with(1));
  EXPECT_THAT(cluster.said, HasSubstr("worker/1 has failed 3 times and is not restarted"));
  EXPECT_EQ(cluster->phase(), Phase::running) << "the others may go on";
  EXPECT_FALSE(cluster->next());
}

TEST(ClusterLife, AKilledChiefThatIsStartedAgainStaysTheChief) {
  LaunchedCluster cluster(1, 2, {.restarts = 1});
  cluster.report_all().end("worker/0", killed_by(SIGKILL));
  EXPECT_EQ(cluster.chief(), "worker/0");
  cluster.pass(seconds(1));
  EXPECT_THAT(cluster.due(), ElementsAre("worker/0"));
  cluster.end("worker/0", ended_with(0));
  cluster.end_rest(ended_with(0));
  EXPECT_EQ(cluster.exit_code(), 0);
}

TEST(ClusterLife, ATaskThatIsStartedAgainDuringTheStartReportsAnotherAddress) {
  LaunchedCluster cluster(0, 2, {.restarts = 1});
  cluster->reported(0, "127.0.0.1:7000", {});
  cluster.end("worker/0", killed_by(SIGKILL));
  EXPECT_EQ(cluster->address(0), "");
  cluster.pass(seconds(1));
  EXPECT_THAT(cluster.due(), ElementsAre("worker/0"));
  cluster->reported(0, "127.0.0.1:7009", {});
  cluster->reported(1, "127.0.0.1:7001", {});
  EXPECT_EQ(cluster->phase(), Phase::running);
  EXPECT_EQ(cluster->address(0), "127.0.0.1:7009");
}

// The chief finds nobody when it comes again.
TEST(ClusterLife, AJobThatEndsWhileItsChiefIsStartedAgainHasEndedWell) {
  LaunchedCluster cluster(1, 2, {.restarts = 3});
  cluster.report_all().end("worker/0", killed_by(SIGKILL));
  cluster.end("worker/1", ended_with(0));
  cluster.pass(milliseconds(100));
  EXPECT_THAT(cluster.due(), ElementsAre("worker/0"));
  cluster.end("ps/0", ended_with(0));
  EXPECT_EQ(cluster->phase(), Phase::ending);
  cluster.pass(seconds(2));
  EXPECT_EQ(cluster->phase(), Phase::asked);
  cluster.end("worker/0", killed_by(SIGTERM));
  EXPECT_EQ(cluster.exit_code(), 0);
}

}  // namespace
}  // namespace troupe
