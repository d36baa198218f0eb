// Training jobs of real tasks, over sockets, in which something is stuck or lost: whom `why` names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::eventually;

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::JobTasks;

// Trains until the test is over.
class StuckJob : public ::testing::Test {
 protected:
  void start(int ps, int workers, const SyncMode& mode, const NetworkOptions& network = {}) {
    tasks.emplace(ps, workers, network);
    TrainingOptions options{.mode = mode, .epochs = 1'000'000, .batch = 8, .stop = &stop};
    options.on_progress = [this](const StepProgress&) { ++steps; };
    training = std::async(std::launch::async, [this, options] {
      return tasks->run([&](Task& task) {
        Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(400, Activation::relu),
                     layers::dense(300, Activation::relu), layers::dense(300, Activation::relu), layers::dense(10)},
                    Shape{28, 28, 1}, DType::u8);
        model.compile(testing::classifying(optimizers::SGD{}), task);
        model.fit(data, options);
        return std::string();
      });
    });
    EXPECT_TRUE(eventually([&] { return steps > 4; }));
  }
  ~StuckJob() override {
    stop = true;
    if (training.valid()) training.get();
  }

  WaitAnalysis why(std::size_t task) { return (*tasks)[task].introspection().view().why(); }

  const DataSplits data = draw_digits({.train = 96, .test = 10});
  std::atomic<bool> stop{false};
  std::atomic<int> steps{0};
  std::optional<JobTasks> tasks;
  std::future<std::vector<std::string>> training;
};

// Pushes wait in the mailbox of the second shard, and earn no credit there: the next have no room on their link.
TEST_F(StuckJob, AShardWithAFullMailboxBehindFullLinks) {
  start(2, 2, {}, {.in_flight = 512 << 10});
  const ActorRecord* shard = nullptr;
  const auto actors = (*tasks)[1].actors().actors();
  for (const auto& record : actors)
    if (record->kind == "shard") shard = record.get();
  ASSERT_TRUE(shard);
  const auto full = [&](const ClusterSnapshot& seen) {
    for (const TaskReport& report : seen.tasks)
      if (report.snapshot)
        for (const LinkSnapshot& link : report.snapshot->links)
          if (link.stalled && link.peer == "/job:ps/task:1" && link.queued_bytes > 0 && link.window == 512 << 10)
            return true;
    return false;
  };
  const ::testing::Matcher<const std::string&> says = AllOf(
      ContainsRegex(
          "\n1. (WORKING|STUCK) the shard of /job:ps/task:1, handling one (Push|Pull), with [0-9]+ messages queued"),
      ContainsRegex("     waits for the connection from /job:worker/task:[01] to /job:ps/task:1, with [0-9]+ bytes "
                    "waiting for credit"),
      HasSubstr("the credit of 524288 bytes from /job:ps/task:1 is used up"));
  // An actor holds this while it handles a message. If none of its gradients is to come when it is held: once more.
  std::unique_lock<std::timed_mutex> held;
  std::string said;
  EXPECT_TRUE(eventually([&] {
    if (held) held.unlock();
    const int before = steps;
    eventually([&] { return steps > before; }, 1s);
    held = std::unique_lock(shard->state_mutex);
    return eventually(
        [&] { return full((*tasks)[0].introspection().view().snapshot()) && says.Matches(said = why(0).text); }, 4s);
  }));
  EXPECT_THAT(said, says);
  held.unlock();
  const int before = steps;
  EXPECT_TRUE(eventually([&] { return steps > before + 8; })) << "it goes on";
}

// Its process answers, its links are gone.
TEST_F(StuckJob, AWorkerThatHasFailedAndIsWaitedFor) {
  start(1, 2, {.servers = {.on_loss = OnLoss::wait, .rejoin_timeout = 1h}});
  ASSERT_TRUE((*tasks)[2].actors().fail_next("scheduler"));
  const std::string cause =
      "/job:worker/task:1 to join again: it was lost: /job:worker/task:1 has failed: scheduler /job:worker/task:1: "
      "failed by a test";
  WaitAnalysis found;
  EXPECT_TRUE(eventually([&] {  // first others, such as clients, still wait for it
    found = why(1);
    return !found.causes.empty() && found.causes[0].kind == RootCause::Kind::never &&
           found.causes[0].text.find(cause) != std::string::npos;
  })) << found.text;
  EXPECT_THAT(found.text, HasSubstr("its token is reserved for another "));
  EXPECT_TRUE(eventually([&] {
    const ClusterSnapshot seen = (*tasks)[1].introspection().view().snapshot();
    return std::ranges::all_of(seen.tasks.at(1).snapshot->links,
                               [](const LinkSnapshot& link) { return link.up == (link.peer != "/job:worker/task:1"); });
  }));
}

}  // namespace
}  // namespace troupe
