// Saving while training goes on, with files that are slow or not to be had.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/actors/training/classifier_job.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class JobCheckpoints : public ::testing::Test {
 protected:
  // 20 steps of an epoch, saved every 10.
  TrainingOptions saving() {
    TrainingOptions options{.epochs = 3, .batch = 16, .checkpoint = directory.file("saved"), .checkpoint_every = 10};
    options.on_epoch = [this](const EpochLogs& e) {
      const std::lock_guard lock(mutex);
      figures.push_back(fmt::format("{}: {}", e.epoch, fmt::join(e.figures, ", ")));
    };
    options.on_event = [this](const JobEvent& event) {
      const std::lock_guard lock(mutex);
      told.push_back(fmt::format("{} {}: {}", event.kind, event.step, event.text));
    };
    return options;
  }
  // Of the parameters; "" of a task that does not have them.
  std::string train(Task& task, const TrainingOptions& options, FileSystem& files) const {
    const Sequential layers({layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)});
    const Optimizer adam = optimizers::Adam{.learning_rate = 0.01};
    TrainingState state;
    const testing::ClassifierJob job(layers, adam, data);
    const TrainingPlan plan = job.plan(options, state, task, files);
    return troupe::train(plan).params_sha256;
  }
  std::string train(const TrainingOptions& options, FileSystem& files = posix_file_system()) const {
    Task task({.threads = 1});
    return train(task, options, files);
  }

  // What a training loop says it does.
  static std::string doing(Task& task) {
    const auto training = task.introspection().training().snapshot();
    return training ? training->doing : "";
  }

  const DataSplits data = draw_digits({.train = 320, .test = 20});
  const std::string undisturbed = train({.epochs = 3, .batch = 16});
  testing::TemporaryDirectory directory;
  std::mutex mutex;
  std::vector<std::string> told, figures;
};

// A disk that is full while this checkpoint is written.
class FullDisk final : public testing::ForwardingFileSystem {
 public:
  explicit FullDisk(std::string checkpoint)
      : ForwardingFileSystem(posix_file_system()), checkpoint_(std::move(checkpoint)) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    if (path.find(checkpoint_) != std::string::npos)
      fail(Code::resource_exhausted, "cannot create '{}': the disk is full", path);
    return ForwardingFileSystem::create(path);
  }

 private:
  const std::string checkpoint_;
};

TEST_F(JobCheckpoints, ThatCannotBeSavedAreToldAndTrainingGoesOn) {
  FullDisk disk("checkpoint-000000000020/shard");
  TrainingOptions options = saving();
  options.checkpoint_every = 20;
  EXPECT_EQ(train(options, disk), undisturbed);
  EXPECT_THAT(told, Contains(AllOf(HasSubstr("save_failed 20: cannot save step 20 in '"), HasSubstr("the disk is full"),
                                   HasSubstr("training continues"))));
  EXPECT_THAT(told, Contains(HasSubstr("saved 60: saved step 60 in '")));
  EXPECT_FALSE(std::filesystem::exists(checkpoint_folder(directory.file("saved"), 20))) << "nothing is left of it";
}

TEST_F(JobCheckpoints, OfShardsThatCannotBeSavedAreToldAndTheJobEnds) {
  for (const std::string what : {"shard", "MANIFEST"}) {
    SCOPED_TRACE(what);
    FullDisk disk("checkpoint-000000000060/" + what);
    testing::JobTasks tasks(2, 2);
    const auto out = tasks.run([&](Task& task) {
      TrainingOptions options = saving();
      options.mode = SyncMode{.slots = 1};
      options.checkpoint = directory.file(what);
      return train(task, options, disk);
    });
    EXPECT_EQ(out[2], undisturbed);
    EXPECT_THAT(told,
                Contains(AllOf(HasSubstr("save_failed 60: cannot save step 60 in '"), HasSubstr("the disk is full"))));
    told.clear();
  }
}

// A disk that keeps whoever creates a file of this checkpoint waiting.
class SlowDisk final : public testing::ForwardingFileSystem {
 public:
  explicit SlowDisk(std::string checkpoint)
      : ForwardingFileSystem(posix_file_system()), checkpoint_(std::move(checkpoint)) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    if (path.find(checkpoint_) != std::string::npos) {
      ++waiting_;
      waiting_.notify_all();
      gone_on_.wait();
    }
    return ForwardingFileSystem::create(path);
  }
  void wait_until_used() const { waiting_.wait(0); }
  void go_on() { go_on_.set_value(); }

 private:
  const std::string checkpoint_;
  std::atomic<int> waiting_{0};
  std::promise<void> go_on_;
  const std::shared_future<void> gone_on_ = go_on_.get_future().share();
};

// Training does not wait for the disk, and what is saved later is what the variables were then.
TEST_F(JobCheckpoints, ThatAreDueWhileOneIsBeingWrittenAreLeftOut) {
  SlowDisk disk("checkpoint-000000000010/shard");
  TrainingOptions options = saving();
  options.checkpoints_kept = 100;
  options.on_progress = [&](const StepProgress& at) {
    if (at.epoch * at.steps + at.step == 35) disk.go_on();
  };
  EXPECT_EQ(train(options, disk), undisturbed);
  EXPECT_EQ(std::ranges::count_if(told, [](const std::string& t) { return t.starts_with("save_left_out"); }), 1);
  EXPECT_THAT(told, Contains(HasSubstr("save_left_out 20: skipping the save of step 20 in '")));
  for (const char* saved : {"saved 10: saved step 10 in '", "saved 60: saved step 60 in '"})
    EXPECT_THAT(told, Contains(HasSubstr(saved)));
  for (const char* left_out : {"saved 20", "saved 30"}) EXPECT_THAT(told, Not(Contains(HasSubstr(left_out))));

  const std::string all = directory.file("saved");
  for (const ListedCheckpoint& checkpoint : list_checkpoints(posix_file_system(), all)) {
    if (checkpoint.version == 10) continue;
    std::filesystem::remove_all(checkpoint.folder);
  }
  const std::vector<std::string> of_one_go = std::exchange(figures, {});
  EXPECT_EQ(train(saving()), undisturbed);
  EXPECT_THAT(told, Contains(HasSubstr("goes_on 10: the job resumes from step 10")));
  EXPECT_EQ(figures, of_one_go);
}

// Longer than the coordinator remembers where the job stood at a version.
TEST_F(JobCheckpoints, OfShardsMayTakeManySteps) {
  SlowDisk disk("/shard-");
  TrainingOptions options = saving();
  options.mode = SyncMode{.slots = 1};
  options.epochs = 6;
  options.on_epoch = [&](const EpochLogs& epoch) {
    if (epoch.epoch == 4) disk.go_on();
  };
  testing::JobTasks tasks(1, 1);
  EXPECT_EQ(tasks.run([&](Task& task) { return train(task, options, disk); })[1], train({.epochs = 6, .batch = 16}));
  EXPECT_GE(std::ranges::count_if(told, [](const std::string& t) { return t.starts_with("saved"); }), 2);
  EXPECT_THAT(told, Contains(HasSubstr("saved 120: saved step 120 in '")));
}

bool is_ready(const std::future<std::string>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// At the end a job waits until what it came to is saved, and says that it does.
TEST_F(JobCheckpoints, TheLastOneIsWaitedFor) {
  for (const bool cluster : {false, true}) {
    SCOPED_TRACE(cluster);
    SlowDisk disk("checkpoint-000000000060/MANIFEST");
    TrainingOptions options = saving();
    if (cluster) options.mode = SyncMode{.slots = 1};
    options.checkpoint = directory.file(cluster ? "sync" : "local");
    Task alone({.threads = 1});
    std::optional<testing::JobTasks> tasks;
    if (cluster) tasks.emplace(1, 1);
    const auto waits = [&] {
      return tasks ? (*tasks)[0].introspection().view().why().text.find("the last checkpoint is being written") !=
                         std::string::npos
                   : doing(alone) == "saves a checkpoint";
    };
    std::future<std::string> hash = std::async(std::launch::async, [&] {
      return tasks ? tasks->run([&](Task& task) { return train(task, options, disk); })[1]
                   : train(alone, options, disk);
    });
    disk.wait_until_used();
    EXPECT_TRUE(testing::eventually([&] { return waits() || is_ready(hash); }));
    EXPECT_FALSE(is_ready(hash));
    disk.go_on();
    EXPECT_EQ(hash.get(), undisturbed);
    const std::lock_guard lock(mutex);
    EXPECT_THAT(told, Contains(HasSubstr("saved 60: saved step 60 in '")));
    told.clear();
  }
}

// After its last epoch nothing else of a job in one process could be stopped.
TEST_F(JobCheckpoints, AJobThatWaitsForTheLastOneCanBeStopped) {
  SlowDisk disk("checkpoint-000000000060/MANIFEST");
  std::atomic<bool> stop{false};
  TrainingOptions options = saving();
  options.stop = &stop;
  Task alone({.threads = 1});
  std::future<std::string> hash = std::async(std::launch::async, [&] { return train(alone, options, disk); });
  disk.wait_until_used();
  EXPECT_TRUE(testing::eventually([&] { return doing(alone) == "saves a checkpoint" || is_ready(hash); }));
  stop = true;
  EXPECT_EQ(testing::error_of([&] { hash.get(); }).message(), "training was stopped");
  disk.go_on();
}

}  // namespace
}  // namespace troupe
