// The texts of a training's progress, of a clock that the test sets.
#include "troupe/actors/training/progress.hpp"

#include <gtest/gtest.h>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr const char* kErase = "\r\x1b[K";

Progress::Time at(std::chrono::milliseconds time) { return Progress::Time(time); }

// One figure after another: "loss" 0.31, "accuracy" 0.905.
struct Epoch {
  StepProgress step(std::uint64_t step, std::uint64_t steps, std::uint32_t epoch = 1) const {
    return {.epoch = epoch, .step = step, .steps = steps, .chief = true, .sums = sums, .results = results};
  }
  NamedSums sums{{"loss", {3.1, 10}}, {"accuracy", {9.05, 10}}};
  std::map<std::string, FigureResult> results{{"loss", mean_of_sums}, {"accuracy", mean_of_sums}};
};

TEST(StepProgress, HasTheMeansSoFar) {
  EXPECT_EQ(Epoch().step(1, 2).figures(), (Figures{{"loss", 0.31}, {"accuracy", 0.905}}));
}

TEST(Progress, ABarGrowsAndShowsTheTimeLeftAndTheFigures) {
  const Epoch epoch;
  Progress progress(true);
  EXPECT_EQ(progress.clear(), "");
  EXPECT_EQ(progress.update(epoch.step(0, 375), 5, 200, at(0ms)),
            std::string(kErase) + "Epoch 2/5 [>                             ]   0/375  loss 0.3100  accuracy 0.9050");
  EXPECT_EQ(progress.update(epoch.step(150, 375), 5, 200, at(8s)),
            std::string(kErase) +
                "Epoch 2/5 [============>                 ] 150/375  12 s left  loss 0.3100  accuracy 0.9050");
  EXPECT_EQ(progress.update(epoch.step(375, 375), 5, 200, at(20s)),
            std::string(kErase) + "Epoch 2/5 [==============================] 375/375  loss 0.3100  accuracy 0.9050");
  EXPECT_EQ(progress.clear(), kErase);
  EXPECT_EQ(progress.clear(), "");
}

TEST(Progress, ABarIsDrawnTenTimesASecond) {
  const Epoch epoch;
  Progress progress(true);
  EXPECT_TRUE(progress.update(epoch.step(0, 8), 2, 80, at(0ms)).has_value());
  EXPECT_EQ(progress.update(epoch.step(1, 8), 2, 80, at(99ms)), std::nullopt);
  EXPECT_TRUE(progress.update(epoch.step(2, 8), 2, 80, at(100ms)).has_value());
}

TEST(Progress, ABarFitsTheTerminal) {
  const Epoch epoch;
  const auto drawn = [&](int columns) {
    Progress progress(true);
    progress.update(epoch.step(100, 375), 5, columns, at(0ms));
    const std::string text = progress.update(epoch.step(150, 375), 5, columns, at(1s)).value();
    EXPECT_LT(text.size() - std::string(kErase).size(), static_cast<std::size_t>(columns));
    return text.substr(std::string(kErase).size());
  };
  EXPECT_EQ(drawn(91), "Epoch 2/5 [============>                 ] 150/375  5 s left  loss 0.3100  accuracy 0.9050");
  EXPECT_EQ(drawn(90), "Epoch 2/5 [===========>                 ] 150/375  5 s left  loss 0.3100  accuracy 0.9050");
  EXPECT_EQ(drawn(71), "Epoch 2/5 [====>     ] 150/375  5 s left  loss 0.3100  accuracy 0.9050");
  EXPECT_EQ(drawn(60), "Epoch 2/5 [====>     ] 150/375  5 s left  loss 0.3100");
  EXPECT_EQ(drawn(42), "Epoch 2/5 [====>     ] 150/375  5 s left");
  EXPECT_EQ(drawn(20), "Epoch 2/5 [====>   ");
}

TEST(Progress, DataOfUnknownLengthShowStepsAndSpeed) {
  const Epoch epoch;
  Progress progress(true);
  progress.update(epoch.step(1, 0), 5, 80, at(0ms));
  EXPECT_EQ(progress.update(epoch.step(151, 0), 5, 80, at(4s)),
            std::string(kErase) + "Epoch 2/5  151 steps  38 steps/s  loss 0.3100  accuracy 0.9050");
  Progress slow(true);
  slow.update(epoch.step(1, 0), 5, 80, at(0ms));
  EXPECT_EQ(slow.update(epoch.step(2, 0), 5, 80, at(4s)),
            std::string(kErase) + "Epoch 2/5  2 steps  0.2 steps/s  loss 0.3100  accuracy 0.9050");
}

TEST(Progress, PlainLinesComeEveryTenSeconds) {
  const Epoch epoch;
  Progress progress(false);
  EXPECT_EQ(progress.update(epoch.step(1, 100), 2, 0, at(0ms)), std::nullopt);
  EXPECT_EQ(progress.update(epoch.step(2, 100), 2, 0, at(9999ms)), std::nullopt);
  EXPECT_EQ(progress.update(epoch.step(3, 100), 2, 0, at(10s)),
            "Epoch 2/2: step 3 of 100, 8:05 left, loss 0.3100, accuracy 0.9050\n");
  EXPECT_EQ(progress.update(epoch.step(4, 100), 2, 0, at(19999ms)), std::nullopt);
  EXPECT_EQ(progress.update(epoch.step(5, 0), 2, 0, at(20s)),
            "Epoch 2/2: step 5, 0.2 steps/s, loss 0.3100, accuracy 0.9050\n");
  EXPECT_EQ(progress.clear(), "");
}

TEST(Progress, TheTimeLeftIsOfTheEpochAsFarAsItWasSeen) {
  const Epoch epoch;
  Progress progress(false);
  progress.update(epoch.step(50, 100, 0), 2, 0, at(0ms));  // resumed there
  EXPECT_EQ(progress.update(epoch.step(90, 100, 0), 2, 0, at(40s))->substr(0, 35),
            "Epoch 1/2: step 90 of 100, 10 s lef");
  EXPECT_EQ(progress.update(epoch.step(1, 36001, 1), 2, 0, at(50s))->substr(0, 34),
            "Epoch 2/2: step 1 of 36001, loss 0");
  EXPECT_EQ(progress.update(epoch.step(11, 36001, 1), 2, 0, at(60s))->substr(0, 40),
            "Epoch 2/2: step 11 of 36001, 9:59:50 lef");
  Progress next(false);
  next.update(epoch.step(1, 100, 0), 2, 0, at(0ms));
  next.update(epoch.step(1, 100, 1), 2, 0, at(90s));
  EXPECT_EQ(next.update(epoch.step(11, 100, 1), 2, 0, at(100s))->substr(0, 37),
            "Epoch 2/2: step 11 of 100, 1:29 left,");
}

TEST(Progress, SmallFiguresKeepTheirDigits) {
  Epoch epoch;
  epoch.sums = {{"loss", {1.25e-5, 1}}, {"accuracy", {0, 1}}};
  Progress progress(true);
  EXPECT_EQ(progress.update(epoch.step(3, 0), 5, 80, at(0ms)),
            std::string(kErase) + "Epoch 2/5  3 steps  loss 1.2500e-05  accuracy 0.0000");
}

// What a stream got.
class ProgressLines : public ::testing::Test {
 protected:
  ~ProgressLines() override { std::fclose(err), std::fclose(out); }
  static std::string text(std::FILE* file) {
    std::fflush(file);
    std::string all(static_cast<std::size_t>(std::ftell(file)), ' ');
    std::rewind(file);
    EXPECT_EQ(std::fread(all.data(), 1, all.size(), file), all.size());
    return all;
  }
  std::FILE* err = std::tmpfile();
  std::FILE* out = std::tmpfile();
};

TEST_F(ProgressLines, AreClearedBeforeOtherOutputAndAtTheEnd) {
  const Epoch epoch;
  const std::string bar = "Epoch 2/5 [===============>              ] 1/2  loss 0.3100  accuracy 0.9050";
  {
    ProgressLine line(err, true);
    line.update(epoch.step(1, 2), 5, at(0ms));
    line.print(out, "Epoch 2/5: done");
    line.print(err, "a warning");
    line.update(epoch.step(1, 2), 5, at(1s));
  }
  EXPECT_EQ(text(out), "Epoch 2/5: done\n");
  EXPECT_EQ(text(err), kErase + bar + kErase + "a warning\n" + kErase + bar + kErase);
}

// After the last step of an epoch they are the figures of the epoch, if one task has computed all.
TEST(StepProgress, HasTheFiguresOfTheEpochAtItsEndInEveryMode) {
  const DataSplits data = draw_digits({.train = 160, .test = 20});
  const auto fit = [&](Task& task, const JobMode& mode) {
    Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::SGD{}), task);
    Figures last;
    std::uint64_t steps = 0;
    int epochs = 0;
    TrainingOptions options{.mode = mode, .epochs = 2, .batch = 16};
    options.on_progress = [&](const StepProgress& at) {
      EXPECT_TRUE(at.chief);
      EXPECT_EQ(at.step, ++steps);
      EXPECT_EQ(at.steps, 10u);
      EXPECT_EQ(at.epoch, static_cast<std::uint32_t>(epochs));
      last = at.figures();
    };
    options.on_epoch = [&](const EpochLogs& epoch) {
      ++epochs;
      steps = 0;
      for (const auto& [name, value] : last) EXPECT_EQ(epoch[name], value) << name;
    };
    model.fit(data, options);
    EXPECT_EQ(last.size(), 2u);
    return std::to_string(epochs);
  };
  Task alone({.threads = 1});
  EXPECT_EQ(fit(alone, LocalMode{}), "2");
  testing::JobTasks servers(1, 1), ranks(0, 1);
  servers.run([&](Task& task) {
    if (task.name().job == "worker") return fit(task, SyncMode{});
    Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
    model.compile(testing::classifying(optimizers::SGD{}), task);
    return model.fit(data, {.mode = SyncMode{}, .epochs = 2, .batch = 16}).params_sha256;
  });
  EXPECT_EQ(ranks.run([&](Task& task) { return fit(task, AllReduceMode{}); }), std::vector<std::string>{"2"});
}

}  // namespace
}  // namespace troupe
