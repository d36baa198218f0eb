// Each test holds one row of the table in rights.hpp against every kind of task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <troupe/actors/cluster/rights.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

const ClusterSpec& cluster() {
  static const ClusterSpec spec = ClusterSpec::parse(
      R"({"name":"n","token":"t","ps":["h:1","h:2"],"worker":["h:3","h:4"],"chief":["h:5"],"input":["h:6"],)"
      R"("serve":["h:7"],"router":["h:8"]})",
      "cluster");
  return spec;
}

const TaskName kCoordinator{"ps", 0}, kShard{"ps", 1}, kWorker{"worker", 1}, kChief{"chief", 0}, kClient{"client", 1},
    kInput{"input", 0}, kReplica{"serve", 0}, kRouter{"router", 0}, kGhost{"ps", 7};

bool may(const TaskName& task, const Frame& frame) {
  const Error error = Rights(task, cluster()).check(frame);
  if (error) {
    EXPECT_EQ(error.code(), Code::permission_denied);
    EXPECT_THAT(error.message(), HasSubstr(task.to_string()));
  }
  return !error;
}

void only(const std::vector<TaskName>& those, const Frame& frame) {
  for (const TaskName& task : {kCoordinator, kShard, kWorker, kChief, kClient, kInput, kReplica, kRouter, kGhost})
    EXPECT_EQ(may(task, frame), std::ranges::count(those, task) == 1)
        << task.to_string() << " says " << kind_name(frame);
}

TEST(Rights, AnybodyMayRunSteps) {
  const std::vector<TaskName> all{kCoordinator, kShard, kWorker, kChief, kClient, kInput, kReplica, kRouter, kGhost};
  only(all, StepStart{});
  only(all, StepDone{});
  only(all, StepAbort{});
  only(all, Put{});
}

TEST(Rights, TasksOfTheClusterRunCollectives) {
  only({kCoordinator, kShard, kWorker, kChief, kInput, kReplica, kRouter},
       CollectivePart{.operation = {}, .tensor = {}, .error = {}});
}

TEST(Rights, AWorkerSpeaksForItselfOnly) {
  const auto row = [](const std::function<Frame(std::uint32_t)>& frame) {
    only({kWorker}, frame(1));
    only({}, frame(2));
  };
  row([](std::uint32_t w) { return Pull{.worker = w, .reply_to = {}}; });
  row([](std::uint32_t w) { return Push{.worker = w, .gradient = {}, .indices = {}}; });
  row([](std::uint32_t w) { return TakeToken{.worker = w}; });
  row([](std::uint32_t w) { return TokenDone{.worker = w, .token = {}}; });
  row([](std::uint32_t w) { return Barrier{.worker = w}; });
  row([](std::uint32_t w) { return Join{.worker = w, .incarnation = {}, .settings = {}}; });
  row([](std::uint32_t w) { return Leave{.worker = w, .incarnation = {}, .reason = {}}; });
}

TEST(Rights, WorkersAskInputTasks) {
  only({kWorker}, OpenFeed{.settings = {}, .place = {}});
  only({kWorker}, WantBatch{});
  only({kWorker}, CloseFeed{.error = {}});
  only({kInput}, BatchMade{.components = {}, .error = {}});
}

TEST(Rights, RoutersAskReplicas) {
  only({kRouter}, AskModel{.model = {}, .signature = {}, .names = {}, .inputs = {}, .outputs = {}, .trace = {}});
  only({kRouter}, WantModels{});
  only({kRouter}, DropModelRequest{});
  only({kRouter}, ConfigureModels{.configuration = {}});
  only({kReplica}, ReplicaModels{.state = {}, .configuration = {}});
  only({kReplica}, ModelAnswer{.names = {}, .outputs = {}, .error = {}});
  only({kReplica}, ModelsConfigured{.error = {}});
}

TEST(Rights, AShardSpeaksForItselfOnly) {
  const auto row = [](const std::function<Frame(std::uint32_t)>& frame) {
    only({kShard}, frame(1));
    only({kCoordinator}, frame(0));
    only({}, frame(7));
  };
  row([](std::uint32_t s) { return Staged{.shard = s}; });
  row([](std::uint32_t s) { return Saved{.shard = s, .files = {}, .error = {}}; });
  row([](std::uint32_t s) { return Join{.worker = s, .incarnation = {}, .settings = {}, .shard = true}; });
  row([](std::uint32_t s) { return Leave{.worker = s, .incarnation = {}, .shard = true, .reason = {}}; });
  only({kCoordinator, kShard}, JobFailed{.error = {}});
}

TEST(Rights, OnlyTheCoordinatorCoordinates) {
  only({kCoordinator}, Joined{.incarnation = {}, .error = {}});
  only({kCoordinator}, Token{});
  only({kCoordinator}, EpochDone{});
  only({kCoordinator}, Save{});
  only({kCoordinator}, Commit{.slots = {}});
  only({kCoordinator}, Fence{.reason = {}});
  only({kCoordinator}, BarrierOpen{});
}

TEST(Rights, NobodySaysWhatTheWireKeepsToItself) {
  only({}, Hello{});
  only({}, Credit{});
}

TEST(Rights, NamesOfTheClustersJobsAreForItsTasks) {
  for (const TaskName& task : {kCoordinator, kShard, kWorker, kChief, kClient, kInput})
    EXPECT_FALSE(Rights::check_name(task, cluster())) << task.to_string();
  const Error ghost = Rights::check_name(kGhost, cluster());
  EXPECT_EQ(ghost.code(), Code::permission_denied);
  EXPECT_THAT(ghost.message(), HasSubstr("a job ps but no task 7"));
}

}  // namespace
}  // namespace troupe
