// What becomes of actors whose handlers throw: each role fails in the middle of a job, and its policy holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <future>
#include <set>

#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/base/restarts.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/serving/replica.hpp>
#include <troupe/actors/serving/router.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using namespace std::chrono_literals;

TEST(Restarts, PauseLongerEachTimeAndEndAfterSomeInARow) {
  Restarts restarts(3);
  auto now = Restarts::Clock::time_point(1000s);
  for (int row = 0; row < 2; ++row) {
    SCOPED_TRACE(::testing::Message() << "row " << row);
    EXPECT_EQ(restarts.after_failure(now), 10ms);
    EXPECT_EQ(restarts.after_failure(now), 20ms);
    now += 9s;
    EXPECT_EQ(restarts.after_failure(now), 40ms);
    now += 10s;  // a new row
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(restarts.after_failure(now)) << "failure " << i;
  EXPECT_EQ(restarts.after_failure(now), std::nullopt);
  EXPECT_EQ(Restarts(0).after_failure(now), std::nullopt);
}

TEST(ActorRoles, NameEachKindOnce) {
  std::set<std::string_view> names;
  for (const ActorRole& role : kActorRoles) EXPECT_TRUE(names.insert(role.name).second) << role.name;
}

TEST(ActorRoles, AKindWithoutARowIsRefused) {
  ActorRegistry registry;
  EXPECT_THROW(registry.add(static_cast<ActorKind>(kActorRoles.size()), "somebody"), std::out_of_range);
}

TEST(ActorRoles, ActorsAreListedInTheOrderOfTheirKinds) {
  ActorRegistry registry;
  std::vector<std::shared_ptr<ActorRecord>> records;
  for (const ActorKind kind : {ActorKind::peer, ActorKind::device, ActorKind::node, ActorKind::device})
    records.push_back(registry.add(kind, std::to_string(records.size())));
  std::vector<std::string> listed;
  for (const auto& record : registry.actors()) listed.push_back(fmt::format("{} {}", record->kind, record->name));
  EXPECT_EQ(listed, (std::vector<std::string>{"node 2", "device 1", "device 3", "peer 0"}));
}

class Supervision : public ::testing::Test {
 protected:
  using Change = std::function<void(const TaskName&, TrainingOptions&)>;
  // What fit() came to on each task: the message of its error; else the hash of the parameters, which the chief has.
  // `in_step` is called once, when worker 0 has done some steps.
  std::vector<std::string> fit(const std::function<void()>& in_step, const Change& change = {}) {
    std::atomic<bool> called = false;
    return tasks.run([&](Task& task) {
      Model model(
          {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
          Shape{28, 28, 1}, DType::u8);
      model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}), task);
      TrainingOptions options{.mode = SyncMode{}, .epochs = 2, .batch = 16};
      if (change) change(task.name(), options);
      if (task.name() == TaskName{"worker", 0})
        options.on_progress = [&](const StepProgress& at) {
          if (at.step == 3 && !called.exchange(true)) in_step();
        };
      return model.fit(data, options).params_sha256;
    });
  }
  // The same after the actor of this kind of a task has failed, and a loss ends the job.
  std::vector<std::string> fit_without(const std::string& kind, std::size_t task) {
    return fit([&] { EXPECT_TRUE(tasks[task].actors().fail_next(kind)); },
               [](const TaskName&, TrainingOptions& options) {
                 options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}};
               });
  }
  static std::string cause(const std::string& kind, const std::string& task) {
    return kind + " " + task + ": failed by a test";
  }

  const DataSplits data = draw_digits({.train = 320, .test = 50});
  testing::JobTasks tasks{2, 2};  // ps/0, ps/1, worker/0, worker/1
};

TEST_F(Supervision, EveryActorHasAPolicy) {
  std::set<std::string> kinds;
  testing::TemporaryDirectory directory;
  fit(
      [&] {
        for (const std::size_t task : {0, 1, 2, 3})
          for (const auto& actor : tasks[task].actors().actors()) kinds.emplace(actor->kind);
      },
      [&](const TaskName&, TrainingOptions& options) {
        options.checkpoint = directory.file("checkpoints");
        options.tensorboard = directory.file("curves");
      });
  testing::JobTasks fed(1, 1, {}, {}, 1);  // by an input task
  fed.run([&](Task& task) {
    Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::SGD{}), task);
    TrainingOptions options{.mode = SyncMode{}, .epochs = 1, .batch = 16, .quiet = true};
    options.on_progress = [&](const StepProgress&) {
      for (const std::size_t each : {0, 1, 2})
        for (const auto& actor : fed[each].actors().actors()) kinds.emplace(actor->kind);
    };
    return model.fit(data, options).params_sha256;
  });
  testing::save_version(directory, "times", 1);
  Task serving;
  ModelServer server(serving);
  server.configure({{.name = "times", .path = directory.file("times"), .batching = BatchQueue::Options{}}});
  server.await_ready("times", testing::kPatience);
  const Replica replica(serving, server);
  const Router router(serving);
  for (const auto& actor : serving.actors().actors()) kinds.emplace(actor->kind);
  std::set<std::string> roles;
  for (const ActorRole& role : kActorRoles) roles.emplace(role.name);
  EXPECT_EQ(kinds, roles);
}

// Neither these, nor an order to exit, end an actor: it has no such message.
TEST_F(Supervision, MessagesThatAreNoneHarmNobody) {
  const auto wanted = fit([] {});
  for (const Stray what : {Stray::unknown, Stray::error, Stray::exit}) {
    testing::TemporaryDirectory directory;
    const auto out = fit(
        [&] {
          for (const std::size_t task : {0, 1, 2, 3})
            EXPECT_GT(tasks[task].actors().send_stray("", what), 6) << "task " << task;
        },
        [&](const TaskName&, TrainingOptions& options) {
          options.checkpoint = directory.file("checkpoints");
          options.tensorboard = directory.file("curves");
        });
    EXPECT_EQ(out, wanted) << static_cast<int>(what);
    for (const std::size_t task : {0, 1, 2, 3})
      EXPECT_FALSE(tasks[task].failure()) << "task " << task << ", stray " << static_cast<int>(what);
  }
}

// As a failure of the same actor.
TEST_F(Supervision, AKilledShardCoordinatorOrWorkerEndsTheJobThatItIsOf) {
  const auto fit_killing = [&](const std::string& kind, std::size_t task) {
    return fit([&] { EXPECT_EQ(tasks[task].actors().send_stray(kind, Stray::kill), 1); },
               [](const TaskName&, TrainingOptions& options) {
                 options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}};
               });
  };
  EXPECT_THAT(fit_killing("shard", 1), Each(HasSubstr("shard /job:ps/task:1: killed")));
  EXPECT_THAT(fit_killing("coordinator", 0), Each(HasSubstr("coordinator /job:ps/task:0: killed")));
  EXPECT_THAT(fit_killing("worker", 3), Each(HasSubstr("worker /job:worker/task:1: killed")));
  for (const std::size_t task : {0, 1, 2, 3}) EXPECT_FALSE(tasks[task].failure()) << "task " << task;
}

TEST_F(Supervision, AKilledPeerIsALostLinkThatIsMadeAgain) {
  const auto wanted = fit([] {});
  const auto out = fit(
      [&] { EXPECT_GT(tasks[3].actors().send_stray("peer", Stray::kill), 0); },
      [](const TaskName&, TrainingOptions& options) { options.mode = SyncMode{.servers = {.rejoin_timeout = 1s}}; });
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(out[i], wanted[i]) << i;
  tasks[3].await("", testing::kPatience);
  EXPECT_FALSE(tasks[3].failure());
}

TEST_F(Supervision, AShardThatFailsEndsTheJobOnAllTasks) {
  for (const auto& [task, name] : {std::pair{0u, "/job:ps/task:0"}, std::pair{1u, "/job:ps/task:1"}})
    EXPECT_THAT(fit_without("shard", task), Each(HasSubstr(cause("shard", name))));
}

TEST_F(Supervision, ACoordinatorThatFailsEndsTheJobOnAllTasks) {
  EXPECT_THAT(fit_without("coordinator", 0), Each(HasSubstr(cause("coordinator", "/job:ps/task:0"))));
}

TEST_F(Supervision, AWorkerThatFailsLeavesTheJobAndTheOthersGoOn) {
  EXPECT_THAT(fit_without("worker", 3), Each(HasSubstr(cause("worker", "/job:worker/task:1"))));
  const auto wanted = fit([] {});
  const auto out = fit([&] { EXPECT_TRUE(tasks[3].actors().fail_next("worker")); });
  EXPECT_THAT(out[3], HasSubstr(cause("worker", "/job:worker/task:1")));
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(out[i], wanted[i]) << i;
}

// After each of these the tasks are of no more use.
class RolesOfATask : public Supervision, public ::testing::WithParamInterface<const char*> {};

TEST_P(RolesOfATask, ThatFailEndTheTaskAndAllHearWhy) {
  const auto out = fit(
      [&] {
        ASSERT_TRUE(tasks[3].actors().fail_next(GetParam()));
        if (std::string_view(GetParam()) == "node") {  // it has nothing to do in a step
          caf::scoped_actor self(tasks[3].system());
          self->send(caf::actor_cast<caf::actor>(tasks[3].handles().node), Observe{});
        }
      },
      [](const TaskName&, TrainingOptions& options) { options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}}; });
  const std::string name = std::string_view(GetParam()) == "device" ? "/device:CPU:0" : "";
  EXPECT_THAT(out, Each(HasSubstr(cause(GetParam(), "/job:worker/task:1" + name))));
  EXPECT_THAT(tasks[3].failure().message(), StartsWith(cause(GetParam(), "/job:worker/task:1" + name)));
  EXPECT_FALSE(tasks[2].failure());
  EXPECT_TRUE(tasks[3].shutdown());
}
// The node can be reached over the network, and does not listen.
TEST_P(RolesOfATask, ThatAreKilledEndTheTaskAndAllHearWhy) {
  if (std::string_view(GetParam()) == "node") {
    const auto wanted = fit([] {});
    EXPECT_EQ(fit([&] { EXPECT_EQ(tasks[3].actors().send_stray("node", Stray::kill), 1); }), wanted);
    EXPECT_FALSE(tasks[3].failure());
    return;
  }
  const auto out = fit(
      [&] { ASSERT_GT(tasks[3].actors().send_stray(GetParam(), Stray::kill), 0); },
      [](const TaskName&, TrainingOptions& options) { options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}}; });
  const std::string killed = fmt::format("{} /job:worker/task:1", GetParam());
  EXPECT_THAT(out, Each(AllOf(HasSubstr(killed), HasSubstr(": killed"))));
  EXPECT_THAT(tasks[3].failure().message(), HasSubstr(": killed"));
  EXPECT_FALSE(tasks[2].failure());
  EXPECT_TRUE(tasks[3].shutdown());
}
INSTANTIATE_TEST_SUITE_P(, RolesOfATask, ::testing::Values("scheduler", "rendezvous", "device", "node"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Supervision, APeerThatFailsEndsItsLinkWhichIsMadeAgain) {
  const auto wanted = fit([] {});
  // A peer is told where a job's frames go when it begins: it fails then.
  EXPECT_TRUE(tasks[3].actors().fail_next("peer"));
  const auto out = fit(
      [] {},
      [](const TaskName&, TrainingOptions& options) { options.mode = SyncMode{.servers = {.rejoin_timeout = 1s}}; });
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(out[i], wanted[i]) << i;  // the job may be over when worker 1 is back
  tasks[3].await("", testing::kPatience);
  EXPECT_FALSE(tasks[3].failure());
}

// ---- Those that restart --------------------------------------------------------------------------------------------

class Introspector : public ::testing::Test {
 protected:
  std::string ask() {
    std::promise<std::string> said;
    caf::anon_send(task.handles().introspector,
                   Asked{"introspector", std::make_shared<PendingAnswer>([&](const Reply& reply) {
                           said.set_value(reply.error() ? "failed: " + reply.message : reply.body);
                         })});
    return said.get_future().get();
  }
  std::string fail() {
    EXPECT_TRUE(task.actors().fail_next("introspector"));
    return ask();
  }

  Task task{{.threads = 1, .introspect_port = 0}};
};

TEST_F(Introspector, GoesOnAfterAFailureAndAnswersWithIt) {
  EXPECT_EQ(fail(), "failed: the callee ended without an answer");
  EXPECT_THAT(ask(), StartsWith("http://127.0.0.1:"));
  for (const auto& record : task.actors().actors()) {
    if (record->kind == "introspector") {
      EXPECT_EQ(record->restarts.load(), 1u);
    }
  }
  EXPECT_FALSE(task.failure());
}

TEST_F(Introspector, ThatFailsAgainAndAgainEnds) {
  for (int i = 0; i < role_of(ActorKind::introspector).restarts + 1; ++i)
    EXPECT_THAT(fail(), StartsWith("failed: ")) << "failure " << i;
  EXPECT_THAT(ask(), StartsWith("failed: "));
  EXPECT_FALSE(task.actors().fail_next("introspector"));
  EXPECT_FALSE(task.failure()) << "nobody needs it";
}

TEST_F(Supervision, ACurvesActorThatFailsHarmsNobody) {
  testing::TemporaryDirectory directory;
  const auto wanted = fit([] {});
  std::atomic<int> told = 0;
  const auto change = [&](const TaskName&, TrainingOptions& options) {
    options.tensorboard = directory.file("curves");
    options.tensorboard_every = 2;
    options.on_event = [&](const JobEvent& event) { told += event.kind == "curves_failed"; };
  };
  EXPECT_EQ(fit([&] { EXPECT_TRUE(tasks[2].actors().fail_next("curves")); }, change), wanted);
  EXPECT_EQ(told, 1);
}

class Checkpoints : public Supervision {
 protected:
  // Of a job whose writer on ps/1 fails at each of the first saves.
  std::vector<std::string> fit_failing(int failures) {
    std::atomic<int> left = failures;
    return fit([] {},
               [&](const TaskName& task, TrainingOptions& options) {
                 options.checkpoint = directory.file("checkpoints");
                 options.checkpoint_every = 2;
                 options.epochs = failures == 1 ? 20 : 10'000;  // longer than it takes
                 options.mode = SyncMode{.servers = {.on_loss = OnLoss::fail}};
                 if (task == TaskName{"worker", 1})
                   options.on_progress = [&](const StepProgress&) {
                     if (left-- > 0) tasks[1].actors().fail_next("checkpoint");
                   };
                 if (task == TaskName{"ps", 0})
                   options.on_event = [&](const JobEvent& event) {
                     saved += event.kind == "saved";
                     not_saved += event.kind == "save_failed";
                   };
               });
  }
  testing::TemporaryDirectory directory;
  std::atomic<int> saved = 0, not_saved = 0;
};

TEST_F(Checkpoints, AreWrittenAgainAfterTheirActorHasFailed) {
  EXPECT_EQ(fit_failing(1)[2].size(), 64u);
  EXPECT_EQ(not_saved, 1);
  EXPECT_GE(saved, 1);  // at least the last: others are left out while one is being written
}

TEST_F(Checkpoints, OfAnActorThatFailsAgainAndAgainEndTheJob) {
  EXPECT_THAT(fit_failing(1000), Each(HasSubstr(cause("checkpoint", "/job:ps/task:1"))));
}

}  // namespace
}  // namespace troupe
