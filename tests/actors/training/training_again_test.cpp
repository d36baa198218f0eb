// Training jobs one after the other on the same tasks, which are connected over sockets: none sees what another has
// left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <future>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

class TrainingAgain : public ::testing::Test {
 protected:
  // What fit() came to on each task: the message of its error; else the hash of the parameters, which the chief has.
  std::vector<std::string> fit(const std::function<void(const TaskName&, TrainingOptions&)>& change = {}) {
    return tasks.run([&](Task& task) {
      Model model(
          {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
          Shape{28, 28, 1}, DType::u8);
      model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
      TrainingOptions options{.mode = SyncMode{}, .epochs = 2, .batch = 16};
      if (change) change(task.name(), options);
      return model.fit(data, options).params_sha256;
    });
  }

  const DataSplits data = draw_digits({.train = 320, .test = 50});
  testing::JobTasks tasks{2, 2};
};

TEST_F(TrainingAgain, AJobThatFollowsAnotherHasItsBits) {
  const auto first = fit();
  EXPECT_EQ(first[2].size(), 64u) << first[2];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fit(), first) << "fit " << i;
}

// fit() again goes on: with the bits of one job of as many epochs.
TEST_F(TrainingAgain, FittingTwiceIsFittingLonger) {
  const auto four = [](const TaskName&, TrainingOptions& options) { options.epochs = 4; };
  const auto once = fit(four);
  const auto twice = tasks.run([&](Task& task) {
    Model model(
        {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
        Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
    const TrainingOptions options{.mode = SyncMode{}, .epochs = 2, .batch = 16};
    model.fit(data, options);
    return model.fit(data, options).params_sha256;
  });
  EXPECT_EQ(twice, once);
  for (const JobMode& mode : std::initializer_list<JobMode>{AsyncMode{}, SspMode{.staleness = 0}}) {
    std::atomic<std::uint64_t> steps = 0;
    const auto other = tasks.run([&](Task& task) {
      Model model(
          {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
          Shape{28, 28, 1}, DType::u8);
      model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
      const TrainingOptions options{.mode = mode, .epochs = 2, .batch = 16};
      model.fit(data, options);
      const TrainingResult result = model.fit(data, options);
      if (result.chief) steps = result.steps;
      return std::string();
    });
    EXPECT_THAT(other, Each("")) << name(mode);
    EXPECT_EQ(steps, std::holds_alternative<AsyncMode>(mode) ? 80u : 40u) << name(mode);
  }
}

// The chief's model has the parameters of the moment in callbacks, and when it is stopped.
TEST_F(TrainingAgain, CallbacksOfTheChiefSeeTheModel) {
  const auto out = tasks.run([&](Task& task) -> std::string {
    Model model(
        {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
        Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
    std::atomic<bool> stop = false;
    double seen = -1;
    TrainingOptions options{.mode = SyncMode{}, .epochs = 3, .batch = 16};
    options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}};
    options.stop = &stop;
    options.on_epoch = [&](const EpochLogs&) {
      seen = model.evaluate(data.test)["loss"];
      stop = true;
    };
    try {
      model.fit(data, options);
      return "not stopped";
    } catch (const Error& error) {
      if (task.name() != TaskName{"worker", 0}) return "";
      EXPECT_EQ(error.code(), Code::cancelled);
      EXPECT_GT(model.evaluate(data.test)["loss"], 0);
      return seen > 0 ? "seen" : "not seen";
    }
  });
  EXPECT_EQ(out[2], "seen");
}

TEST_F(TrainingAgain, AStepMayHaveMoreSlotsThanItNeeds) {
  for (const JobMode& mode : std::initializer_list<JobMode>{SyncMode{.backups = 1}, SspMode{.backups = 1}}) {
    const auto out = fit([&](const TaskName&, TrainingOptions& options) { options.mode = mode; });
    for (std::size_t i : {0, 1, 3}) EXPECT_EQ(out[i], "") << i;
    EXPECT_EQ(out[2].size(), 64u) << out[2];
  }
  EXPECT_THAT(fit([](const TaskName&, TrainingOptions& options) { options.mode = SyncMode{.backups = -1}; }),
              Each(HasSubstr("backups must be 0 to 1024, not -1")));
  EXPECT_THAT(fit([](const TaskName&, TrainingOptions& options) { options.mode = SyncMode{.backups = 2}; }),
              Each(HasSubstr("leave no slot")));
}

TEST_F(TrainingAgain, StepsMayBeginBeforeTheLastOnesAreApplied) {
  const auto out = fit([](const TaskName&, TrainingOptions& options) { options.mode = SspMode{.staleness = 2}; });
  EXPECT_EQ(out[2].size(), 64u) << out[2];
  const auto wanted = fit();
  EXPECT_EQ(fit([](const TaskName&, TrainingOptions& options) { options.mode = SspMode{.staleness = 0}; }), wanted)
      << "staleness 0 is synchronous";
  EXPECT_THAT(fit([](const TaskName&, TrainingOptions& options) { options.mode = SspMode{.staleness = 1025}; }),
              Each(HasSubstr("staleness must be 0 to 1024")));
}

TEST_F(TrainingAgain, AWorkerThatStopsEndsTheJobForAllAndNoLaterOne) {
  const auto wanted = fit();
  std::atomic<bool> stop = false;
  const auto stopped = fit([&](const TaskName& name, TrainingOptions& options) {
    options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}};
    options.epochs = 10'000;  // the other worker cannot do them before this one has left
    options.quiet = true;
    if (name != TaskName{"worker", 1}) return;
    options.stop = &stop;
    options.on_progress = [&](const StepProgress& at) {
      if (at.step >= 3) stop = true;
    };
  });
  EXPECT_THAT(stopped[3], HasSubstr("stop"));
  for (std::size_t i : {0, 1, 2})
    EXPECT_THAT(stopped[i], AllOf(HasSubstr("/job:worker/task:1 was lost"), HasSubstr("left the job"))) << i;
  EXPECT_EQ(fit(), wanted);
}

TEST_F(TrainingAgain, WhatAWorkerThatStopsLeavesBehindIsDoneByTheOther) {
  const auto wanted = fit();
  for (const std::uint64_t at : {1, 7, 19, 20, 39}) {
    std::atomic<bool> stop = false;
    std::uint64_t steps = 0;
    const auto out = fit([&](const TaskName& name, TrainingOptions& options) {
      if (name != TaskName{"worker", 1}) return;
      options.stop = &stop;
      options.on_progress = [&](const StepProgress&) {
        if (++steps == at) stop = true;
      };
    });
    EXPECT_EQ(out[2], wanted[2]) << at;
    EXPECT_THAT(out[3], AnyOf(HasSubstr("stop"), "")) << at;  // it may have been in the barrier
  }
  EXPECT_EQ(fit(), wanted);
}

// Takes hold of a task's link to another, to say what the actors of a job say.
class PeerFinder final : public PeerObserver::base {
 public:
  PeerFinder(caf::actor_config& config, TaskName wanted, std::shared_ptr<std::promise<PeerActor>> found)
      : PeerObserver::base(config), wanted_(std::move(wanted)), found_(std::move(found)) {}
  behavior_type make_behavior() override {
    return {[this](const PeerUp& up) {
              if (up.task != wanted_) return;
              found_->set_value(up.peer);
              quit();
            },
            [](const PeerDown&) {}};
  }

 private:
  const TaskName wanted_;
  const std::shared_ptr<std::promise<PeerActor>> found_;
};

PeerActor peer_of(Task& from, const TaskName& to) {
  auto found = std::make_shared<std::promise<PeerActor>>();
  auto peer = found->get_future();
  caf::anon_send(from.handles().node, Observe{from.system().spawn<PeerFinder>(to, found)});
  return peer.get();
}

// The coordinator has given it up, and its links are whole: nobody else would tell it.
TEST_F(TrainingAgain, AWorkerThatIsAMemberNoMoreJoinsAgain) {
  const auto wanted = fit();
  const PeerActor worker = peer_of(tasks[0], {"worker", 1});
  std::atomic<int> fences = 0;
  std::atomic<int> joins = 0;
  const auto out = fit([&](const TaskName& name, TrainingOptions& options) {
    if (name == TaskName{"ps", 0})
      options.on_event = [&](const JobEvent& event) {
        joins += event.kind == "joined" && event.task == TaskName{"worker", 1};
        joins.notify_all();
      };
    if (name == TaskName{"worker", 0})  // the job is not over before the other is back
      options.on_progress = [&](const StepProgress& at) {
        for (int now = joins; at.step >= 5 && now < 2; now = joins) joins.wait(now);
      };
    if (name != TaskName{"worker", 1}) return;
    options.on_progress = [&](const StepProgress& at) {
      if (at.step >= 3 && fences++ == 0)
        caf::anon_send(worker,
                       Outbound{Fence{1, ~0ull, Error(Code::aborted, "given up for lost"), tasks[0].last_job()}});
    };
  });
  EXPECT_EQ(out, wanted);
  EXPECT_EQ(joins, 2);
}

// The first worker, who tells the user, is the one that stops: the other does then.
TEST_F(TrainingAgain, AnotherTellsTheUserWhenTheFirstStops) {
  const auto wanted = fit();
  std::atomic<bool> stop = false;
  const auto out = fit([&](const TaskName& name, TrainingOptions& options) {
    if (name != TaskName{"worker", 0}) return;
    options.stop = &stop;
    options.on_progress = [&](const StepProgress& at) {
      if (at.step >= 3) stop = true;
    };
  });
  EXPECT_THAT(out[2], HasSubstr("stop"));
  EXPECT_EQ(out[3], wanted[2]);
}

TEST_F(TrainingAgain, AShardThatStopsEndsTheJobForAllAndNoLaterOne) {
  const auto wanted = fit();
  for (const int shard : {0, 1}) {
    std::atomic<bool> stop = false;
    const auto stopped = fit([&](const TaskName& name, TrainingOptions& options) {
      options.epochs = 100'000;
      options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}};
      if (name == TaskName{"ps", shard}) options.stop = &stop;
      if (name.job == "worker") options.on_progress = [&](const StepProgress&) { stop = true; };
    });
    for (std::size_t i = 0; i < 4; ++i) {
      if (i == static_cast<std::size_t>(shard)) continue;
      EXPECT_THAT(stopped[i], HasSubstr(fmt::format("/job:ps/task:{} was lost", shard))) << i;
    }
    EXPECT_EQ(fit(), wanted) << "after shard " << shard << " stopped";
  }
}

TEST_F(TrainingAgain, TasksThatDisagreeFailAndTrainWhenTheyAgree) {
  const auto wanted = fit();
  for (std::size_t other = 1; other < 4; ++other) {
    const auto failed = fit([&](const TaskName& name, TrainingOptions& options) {
      if (name == tasks[other].name()) options.seed = 8;
    });
    EXPECT_THAT(failed,
                Each(AllOf(HasSubstr(tasks[other].name().to_string()), HasSubstr("seed is '8', expected '0'"))));
    EXPECT_EQ(fit(), wanted) << tasks[other].name().to_string();
  }
}

TEST_F(TrainingAgain, WhoComesLateToARefusedJobHearsWhyAtOnce) {
  std::promise<void> refused;
  const std::shared_future<void> heard = refused.get_future().share();
  const auto out = fit([&](const TaskName& name, TrainingOptions& options) {
    if (name == TaskName{"worker", 1}) options.batch = 8;
    if (name == TaskName{"worker", 0}) heard.wait();
    if (name != TaskName{"ps", 0}) return;
    options.on_event = [&](const JobEvent& event) {
      if (event.text.starts_with("training cannot begin")) refused.set_value();
    };
  });
  EXPECT_THAT(out, Each(AllOf(HasSubstr("another training job"), HasSubstr("batch"))));
}

TEST_F(TrainingAgain, ATaskThatTrainsAloneIsToldAndTheOthersAreNotBotheredLater) {
  const auto alone = [&](std::size_t task, std::chrono::nanoseconds patience = std::chrono::milliseconds(1)) {
    Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::SGD{}), tasks[task]);
    try {
      model.fit(data, {.mode = SyncMode{.servers = {.join_timeout = patience}}, .epochs = 1});
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("it has trained");
  };
  const auto wanted = fit();
  EXPECT_THAT(alone(0), HasSubstr("did not join within 0.001 s"));
  for (std::size_t task : {1, 2, 3}) {
    EXPECT_THAT(alone(task, std::chrono::seconds(60)), HasSubstr("did not join within 0.001 s")) << "the job that was";
    EXPECT_THAT(alone(task), HasSubstr("/job:ps/task:0 did not start the training job within 0.001 s"))
        << "task " << task;
  }
  EXPECT_EQ(fit(), wanted);
}

}  // namespace
}  // namespace troupe
