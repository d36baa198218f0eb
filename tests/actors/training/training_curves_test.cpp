// The curves of a training job, with files that are to be had, full or slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <mutex>

#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/actors/tensorboard/event_reader.hpp"
#include "tests/actors/training/classifier_job.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/training/training_curves.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Curves;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;
using Point = LossWindows::Point;

TEST(LossWindows, EndWhenALaterStepComes) {
  LossWindows windows(3);
  EXPECT_EQ(windows.add(0, 2, 2), std::nullopt);
  EXPECT_EQ(windows.add(1, 1, 2), std::nullopt);
  EXPECT_EQ(windows.add(2, 0.5, 2), std::nullopt);
  EXPECT_EQ(windows.add(2, 0.5, 2), std::nullopt) << "another slot of the step";
  EXPECT_THAT(windows.add(3, 5, 2), Optional(Point{3, 1}));
  EXPECT_THAT(windows.add(11, 3, 2), Optional(Point{6, 5})) << "steps that others computed";
  EXPECT_THAT(windows.add(12, 1, 1), Optional(Point{12, 3}));
}

TEST(LossWindows, AreCompleteAtTheEndOfAnEpoch) {
  LossWindows windows(4);
  EXPECT_EQ(windows.complete(0, true), std::nullopt) << "nothing is known";
  windows.add(2, 0.5, 2);
  windows.add(3, 2.5, 2);
  EXPECT_THAT(windows.complete(4, false), Optional(Point{4, 1.5}));
  EXPECT_EQ(windows.complete(4, true), std::nullopt);
  windows.add(4, 4, 2);
  EXPECT_EQ(windows.complete(6, false), std::nullopt) << "it is not full";
  EXPECT_THAT(windows.complete(6, true), Optional(Point{6, 4}));
}

TEST(LossWindows, BeginWhereTheJobGoesOn) {
  LossWindows windows(100);
  windows.add(430, 1, 1);
  EXPECT_THAT(windows.add(500, 1, 1), Optional(Point{500, 1}));
}

// 20 steps of an epoch, a point every 8.
class TrainingCurvesOf : public ::testing::Test {
 protected:
  TrainingOptions curves(const JobMode& mode = LocalMode{}, int batch = 16) {
    TrainingOptions options{.mode = mode, .epochs = 3, .batch = batch};
    options.tensorboard = place;
    options.tensorboard_every = 8;
    options.on_epoch = [this](const EpochLogs& e) { figures.push_back(e); };
    options.on_event = [this](const JobEvent& event) {
      const std::lock_guard lock(mutex);
      if (event.kind == "curves_failed") told.push_back(event.text);
    };
    return options;
  }
  struct Trained {
    TrainingResult result;
    Parameters parameters;
  };
  Trained train(Task& task, const TrainingOptions& options, FileSystem& files = posix_file_system(),
                const Optimizer& optimizer = optimizers::Adam{}) const {
    const Sequential layers({layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)});
    TrainingState state;
    const testing::ClassifierJob job(layers, optimizer, data);
    const TrainingPlan plan = job.plan(options, state, task, files);
    const TrainingResult result = troupe::train(plan);
    return {result, state.parameters};
  }
  Trained train(const TrainingOptions& options, FileSystem& files = posix_file_system(),
                const Optimizer& optimizer = optimizers::Adam{}) const {
    Task task({.threads = 1});
    return train(task, options, files, optimizer);
  }
  static std::vector<std::int64_t> steps_of(const std::vector<Curves::Scalar>& scalars) {
    std::vector<std::int64_t> out;
    for (const auto& scalar : scalars) out.push_back(scalar.step);
    return out;
  }
  static std::string values_of(const std::vector<std::pair<std::int64_t, proto::tensorboard::Histogram>>& histograms) {
    std::string out;
    for (const auto& [step, histogram] : histograms) out += fmt::format("{}: {}\n", step, histogram.DebugString());
    return out;
  }
  static double total(const proto::tensorboard::Histogram& histogram) {
    double sum = 0;
    for (const double count : histogram.bucket()) sum += count;
    return sum;
  }

  const DataSplits data = draw_digits({.train = 320, .test = 20});
  const std::string undisturbed = train({.epochs = 3, .batch = 16}).result.params_sha256;
  testing::TemporaryDirectory directory;
  const std::string place = directory.file("new/curves");
  std::mutex mutex;
  std::vector<std::string> told;
  std::vector<EpochLogs> figures;
};

TEST_F(TrainingCurvesOf, AJobAreItsFiguresLossesParametersAndGraph) {
  const Trained trained = train(curves());
  EXPECT_EQ(trained.result.params_sha256, undisturbed);
  const Curves read = testing::read_curves(place);
  EXPECT_THAT(read.starts, ElementsAre(0));

  std::map<std::string, std::vector<Curves::Scalar>> told;
  for (const EpochLogs& e : figures) {
    const auto step = static_cast<std::int64_t>(e.steps);
    for (const auto& [name, value] : e.figures) told[name].push_back({step, static_cast<float>(value)});
    told["examples_per_second"].push_back({step, static_cast<float>(e.examples_per_second)});
  }
  EXPECT_THAT(steps_of(told.at("val_accuracy")), ElementsAre(20, 40, 60));
  for (const auto& [name, scalars] : told) EXPECT_EQ(read.scalars.at("epoch/" + name), scalars) << name;

  EXPECT_THAT(steps_of(read.scalars.at("loss")), ElementsAre(8, 16, 24, 32, 40, 48, 56, 60));
  double sum = 0;
  std::int64_t before = 0;
  for (const auto& scalar : read.scalars.at("loss"))
    sum += scalar.value * static_cast<double>(scalar.step - std::exchange(before, scalar.step));
  EXPECT_NEAR(sum / 20, figures[0]["loss"] + figures[1]["loss"] + figures[2]["loss"], 1e-4)
      << "all steps are in it, once";
  EXPECT_THAT(read.scalars.at("learning_rate").back(), (Curves::Scalar{60, 1e-3F}));

  ASSERT_EQ(read.histograms.size(), trained.parameters.size());
  for (const auto& [name, value] : trained.parameters) {
    SCOPED_TRACE(name);
    const auto& histograms = read.histograms.at(fmt::format("parameters/{}", name));
    ASSERT_THAT(histograms, SizeIs(3));
    EXPECT_EQ(histograms.back().first, 60);
    for (const auto& [step, histogram] : histograms) {
      EXPECT_EQ(histogram.num(), static_cast<double>(value.num_elements()));
      EXPECT_EQ(total(histogram), histogram.num());
    }
    EXPECT_EQ(histograms.back().second.max(),
              *std::max_element(value.data<float>(), value.data<float>() + value.num_elements()))
        << name;
  }
  std::map<std::string, std::string> ops;
  for (const auto& node : read.graph.node()) ops[node.name()] = node.op();
  EXPECT_EQ(ops.at("images"), "Placeholder");
  EXPECT_EQ(ops.at("dense/kernel"), "Variable");
}

TEST_F(TrainingCurvesOf, AScheduleAreTheRatesOfTheLastUpdates) {
  train(curves(), posix_file_system(),
        optimizers::SGD{.learning_rate = schedules::Step{.rate = 0.5, .factor = 0.5, .every = 8}});
  const auto rates = testing::read_curves(place).scalars.at("learning_rate");
  ASSERT_THAT(rates, SizeIs(8));
  EXPECT_EQ(rates[0], (Curves::Scalar{8, 0.5F}));
  EXPECT_EQ(rates[1], (Curves::Scalar{16, 0.25F}));
  EXPECT_EQ(rates[7], (Curves::Scalar{60, 0.5F / 128}));
}

TEST_F(TrainingCurvesOf, AJobThatGoesOnReplaceWhatIsDoneAgain) {
  TrainingOptions options = curves();
  options.checkpoint = directory.file("saved");
  options.checkpoint_every = 30;
  train(options);
  const Curves undisturbed_curves = testing::read_curves(place);
  // As if it had died after step 40: the checkpoint of step 30 is the newest.
  std::filesystem::remove_all(directory.file("saved/checkpoint-000000000060"));
  train(options);
  const Curves again = testing::read_curves(place);
  EXPECT_THAT(again.starts, ElementsAre(0, 31));
  EXPECT_THAT(steps_of(again.scalars.at("epoch/loss")), ElementsAre(20, 40, 60));
  EXPECT_EQ(again.scalars.at("epoch/loss"), undisturbed_curves.scalars.at("epoch/loss"));
  EXPECT_THAT(steps_of(again.scalars.at("loss")), ElementsAre(8, 16, 24, 32, 40, 48, 56, 60));
  for (const auto& [tag, histograms] : undisturbed_curves.histograms)
    EXPECT_EQ(values_of(again.histograms.at(tag)), values_of(histograms)) << tag;
  // It is over: what it came to is told once more, in the place of what was.
  train(options);
  const Curves over = testing::read_curves(place);
  EXPECT_THAT(over.starts, ElementsAre(0, 31, 60));
  EXPECT_EQ(over.scalars.at("epoch/loss"), undisturbed_curves.scalars.at("epoch/loss"));
  EXPECT_THAT(testing::event_files(place), SizeIs(3));
}

TEST_F(TrainingCurvesOf, AJobThatBeginsAnewReplaceAll) {
  train(curves());
  TrainingOptions shorter = curves();
  shorter.epochs = 1;
  train(shorter);
  EXPECT_THAT(steps_of(testing::read_curves(place).scalars.at("epoch/loss")), ElementsAre(20));
}

// The bits of synchronous training are those of as many slots in one process; so are the curves but for the loss, of
// which each worker knows its own.
TEST_F(TrainingCurvesOf, AClusterAreThoseOfOneProcess) {
  const Trained local = train(curves(LocalMode{.slots = 2}, 8));
  const Curves wanted = testing::read_curves(place);
  const std::string elsewhere = directory.file("cluster");
  for (const JobMode& mode : std::initializer_list<JobMode>{SyncMode{}, AllReduceMode{}}) {
    SCOPED_TRACE(name(mode));
    testing::JobTasks tasks(servers_of(mode) ? 2 : 0, 2);
    const std::string there = fmt::format("{}-{}", elsewhere, name(mode));
    tasks.run([&](Task& task) {
      TrainingOptions options = curves(mode, 8);
      options.on_epoch = nullptr;
      options.tensorboard = there;
      return train(task, options).result.params_sha256;
    });
    const Curves read = testing::read_curves(there);
    EXPECT_THAT(testing::event_files(there), SizeIs(1)) << "one task writes";
    for (const char* tag : {"epoch/accuracy", "epoch/val_accuracy", "learning_rate"})
      EXPECT_EQ(read.scalars.at(tag), wanted.scalars.at(tag)) << tag;
    EXPECT_THAT(steps_of(read.scalars.at("loss")), ElementsAre(8, 16, 24, 32, 40, 48, 56, 60));
    EXPECT_EQ(read.histograms.size(), wanted.histograms.size());
    for (const auto& [tag, histograms] : wanted.histograms)
      EXPECT_EQ(values_of(read.histograms.at(tag)), values_of(histograms)) << name(mode) << tag;
  }
}

TEST_F(TrainingCurvesOf, OtherModesAreTheirFiguresAndParameters) {
  for (const JobMode& mode : std::initializer_list<JobMode>{SspMode{.staleness = 0}, AsyncMode{}}) {
    testing::JobTasks tasks(1, 2);
    const std::string there = directory.file(std::string(name(mode)));
    tasks.run([&](Task& task) {
      TrainingOptions options = curves(mode, 8);
      options.tensorboard = there;
      return train(task, options).result.params_sha256;
    });
    const Curves read = testing::read_curves(there);
    const std::int64_t steps = std::holds_alternative<AsyncMode>(mode) ? 40 : 20;  // of an epoch
    EXPECT_THAT(steps_of(read.scalars.at("epoch/loss")), ElementsAre(steps, 2 * steps, 3 * steps)) << name(mode);
    EXPECT_LE(read.scalars.at("loss").back().step, 3 * steps)
        << "of the chief's own batches: the last may be of the other";
    const auto& kernels = read.histograms.at("parameters/dense/kernel");
    EXPECT_EQ(kernels.back().first, 3 * steps) << name(mode);
    EXPECT_EQ(total(kernels.back().second), 784 * 16) << name(mode);
  }
}

TEST_F(TrainingCurvesOf, AJobWhoseChiefIsLostAreThoseOfBoth) {
  std::atomic<bool> stop = false;
  {
    testing::JobTasks tasks(1, 2);
    const auto ended = tasks.run([&](Task& task) {
      TrainingOptions options = curves(SyncMode{}, 8);
      options.on_epoch = [&](const EpochLogs&) { stop = true; };
      if (task.name() == TaskName{"worker", 0}) options.stop = &stop;
      return train(task, options).result.params_sha256;
    });
    EXPECT_EQ(ended[1], "training was stopped");
    EXPECT_THAT(ended[2], SizeIs(64)) << "the new chief's";
  }
  EXPECT_THAT(testing::event_files(place), SizeIs(2));
  const Curves read = testing::read_curves(place);
  ASSERT_THAT(read.starts, SizeIs(2));
  EXPECT_LE(read.starts[0], 2) << "after its first batch";
  EXPECT_EQ(read.starts[1], 40) << "the second one becomes the chief with the figures of an epoch";
  EXPECT_THAT(steps_of(read.scalars.at("epoch/loss")), ElementsAre(20, 40, 60));
  EXPECT_EQ(read.histograms.at("parameters/dense/kernel").back().first, 60);
}

TEST_F(TrainingCurvesOf, APlaceThatCannotBeAreRefusedBeforeTraining) {
  TrainingOptions options = curves();
  options.tensorboard = fmt::format("{}/below", directory.write("file", ""));
  const Error error = error_of([&] { train(options); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("cannot write the training curves: "), HasSubstr("/file/below'"),
                                     HasSubstr("pass a directory that this task may write to")));
  EXPECT_THAT(figures, IsEmpty());
  options = curves();
  options.tensorboard_every = 0;
  EXPECT_EQ(error_of([&] { train(options); }).code(), Code::invalid_argument);
}

// Has room for so many appends, or none while it is full; a file that is refused one has half of it.
class SmallDisk final : public testing::ForwardingFileSystem {
 public:
  explicit SmallDisk(int room) : ForwardingFileSystem(posix_file_system()), room_(room) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<File>(ForwardingFileSystem::create(path), room_);
  }
  void make_room() { room_ = 1 << 20; }

 private:
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, std::atomic<int>& room) : file_(std::move(file)), room_(room) {}
    void append(std::span<const std::byte> bytes) override {
      const bool full = room_-- <= 0;
      file_->append(full ? bytes.first(bytes.size() / 2) : bytes);
      if (full) fail(Code::resource_exhausted, "cannot write: the disk is full");
    }
    void sync() override { file_->sync(); }
    void close() override { file_->close(); }

   private:
    std::unique_ptr<WritableFile> file_;
    std::atomic<int>& room_;
  };
  std::atomic<int> room_;
};

TEST_F(TrainingCurvesOf, AFullDiskAreToldOnceAndTrainingGoesOn) {
  for (const int room : {0, 1, 5}) {
    SCOPED_TRACE(::testing::Message() << "room " << room);  // for the version; for the graph; for the second loss
    told.clear();
    SmallDisk disk(room);
    EXPECT_EQ(train(curves(), disk).result.params_sha256, undisturbed);
    EXPECT_THAT(
        told, ElementsAre(AllOf(HasSubstr(fmt::format(
                                    "cannot write the training curves in '{}': cannot write: the disk is full", place)),
                                HasSubstr("training continues"))));
  }
}

TEST_F(TrainingCurvesOf, ADiskThatHasRoomAgainGoOn) {
  SmallDisk disk(3);  // until the first loss
  TrainingOptions options = curves();
  options.on_event = [&](const JobEvent& event) {
    if (event.kind == "curves_failed") disk.make_room();
  };
  EXPECT_EQ(train(options, disk).result.params_sha256, undisturbed);
  const auto files = testing::event_files(place);
  ASSERT_THAT(files, SizeIs(2));
  const auto events = testing::read_events(files.back());
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_FALSE(events[1].graph_def().empty());
  EXPECT_EQ(events[2].step(), 20);
  EXPECT_EQ(events[2].summary().value(0).tag(), "epoch/loss");
  EXPECT_EQ(events.back().step(), 60);
}

// Nothing is written before `open` is set.
class SlowCurveDisk final : public testing::ForwardingFileSystem {
 public:
  SlowCurveDisk() : ForwardingFileSystem(posix_file_system()) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<File>(ForwardingFileSystem::create(path), open.get_future().share());
  }
  std::promise<void> open;

 private:
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, std::shared_future<void> open)
        : file_(std::move(file)), open_(std::move(open)) {}
    void append(std::span<const std::byte> bytes) override {
      if (++appended_ > 2) open_.wait();
      file_->append(bytes);
    }
    void sync() override { file_->sync(); }
    void close() override { file_->close(); }

   private:
    std::unique_ptr<WritableFile> file_;
    std::shared_future<void> open_;
    int appended_ = 0;
  };
};

TEST_F(TrainingCurvesOf, ASlowDiskDoNotHoldTheTrainingUp) {
  SlowCurveDisk disk;
  TrainingOptions options = curves();
  options.on_epoch = [&](const EpochLogs& e) {
    if (e.epoch == 2) disk.open.set_value();
  };
  EXPECT_EQ(train(options, disk).result.params_sha256, undisturbed);
  EXPECT_THAT(told, IsEmpty());
  const Curves read = testing::read_curves(place);
  EXPECT_THAT(steps_of(read.scalars.at("epoch/loss")), ElementsAre(20, 40, 60));
  EXPECT_THAT(read.histograms.at("parameters/dense/kernel"), SizeIs(3));
}

TEST_F(TrainingCurvesOf, ASlowDiskLeaveOutWhatIsMoreThanMayWait) {
  SlowCurveDisk disk;
  Task task({.threads = 1});
  const TrainingOptions options = curves();
  TrainingState state;
  const testing::ClassifierJob job(Sequential({layers::flatten(), layers::dense(10)}), optimizers::Adam{}, data);
  const TrainingPlan plan = job.plan(options, state, task, disk);
  const TrainingGraph graph = build_training_graph(plan, {});
  const Parameters kilobyte = {{"w", Tensor::zeros(DType::f32, {256})}};
  TrainingCurves curves(plan, graph, true, {.events = 6, .bytes = 2000});
  curves.epoch_done({.epoch = 0, .figures = {{"loss", 1}}, .steps = 0});  // the beginning, and the figures
  curves.parameters(0, kilobyte);
  curves.parameters(0, kilobyte);
  EXPECT_THAT(told, ElementsAre(HasSubstr("the disk is too slow: some training curves in '")));
  for (std::uint32_t epoch = 1; epoch < 10; ++epoch)
    curves.epoch_done({.epoch = epoch, .figures = {{"loss", 1}}, .steps = epoch});
  disk.open.set_value();
  curves.wait();
  const Curves read = testing::read_curves(place);
  EXPECT_THAT(read.histograms.at("parameters/w"), SizeIs(1));
  EXPECT_THAT(steps_of(read.scalars.at("epoch/loss")), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(told, SizeIs(1));
}

}  // namespace
}  // namespace troupe
