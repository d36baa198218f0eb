// Decisions after epochs have the same effect in all modes, and after a job resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/few_digits.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>

namespace troupe {
namespace {

using testing::error_of;

EpochLogs logs_of_epoch(std::uint32_t epoch, double loss) { return {.epoch = epoch, .figures = {{"val_loss", loss}}}; }

// The decisions after epochs with these losses.
std::vector<EpochDecision> decisions(const CallbackPtr& callback, const std::vector<double>& losses) {
  std::vector<EpochDecision> out;
  const Callback::Decide decide = callback->decision();
  for (const double loss : losses) {
    EpochDecision& made = out.emplace_back();
    decide(logs_of_epoch(static_cast<std::uint32_t>(out.size()) - 1, loss), made);
  }
  return out;
}

std::vector<bool> stops(const std::vector<EpochDecision>& all) {
  std::vector<bool> out;
  for (const EpochDecision& one : all) out.push_back(one.stop);
  return out;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Callbacks, EarlyStoppingWaitsForABetterEpoch) {
  const auto made = decisions(callbacks::early_stopping({.patience = 2}), {3, 2, 2.5, 1, 1, 1.5});
  EXPECT_THAT(stops(made), ::testing::ElementsAre(false, false, false, false, false, true));
  EXPECT_TRUE(made[0].keep && made[1].keep && made[3].keep);
  EXPECT_FALSE(made[2].keep || made[4].keep);
  EXPECT_THAT(stops(decisions(callbacks::early_stopping(), {3, 3})), ::testing::ElementsAre(false, true));
  EXPECT_THAT(stops(decisions(callbacks::early_stopping({.min_delta = 0.5}), {3, 2, 1.6})),
              ::testing::ElementsAre(false, false, true));
  EXPECT_THAT(stops(decisions(callbacks::early_stopping({.from_epoch = 2}), {1, 1, 1, 1})),
              ::testing::ElementsAre(false, false, false, true));
  EXPECT_THAT(stops(decisions(callbacks::early_stopping({.patience = 2}), {kNan, kNan})),
              ::testing::ElementsAre(false, true));
  EXPECT_FALSE(decisions(callbacks::early_stopping({.keep_best = false}), {1})[0].keep);
  EXPECT_TRUE(callbacks::is_better("val_accuracy", callbacks::Better::automatic, 0.9, 0.8));
  EXPECT_TRUE(callbacks::is_better("val_loss", callbacks::Better::automatic, 0.7, 0.8));
  EXPECT_EQ(error_of([] { callbacks::early_stopping({.min_delta = -1}); }).code(), Code::invalid_argument);
}

TEST(Callbacks, RatesFallOnAPlateau) {
  std::vector<double> scales;
  for (const EpochDecision& one :
       decisions(callbacks::reduce_on_plateau({.factor = 0.5, .patience = 2, .cooldown = 1, .least = 0.25}),
                 {1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5}))
    scales.push_back(one.rate_scale);
  EXPECT_THAT(scales, ::testing::ElementsAre(1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25));
  EXPECT_EQ(error_of([] { callbacks::reduce_on_plateau({.factor = 1}); }).code(), Code::invalid_argument);
}

// Keeps the second epoch, changes rates, and stops after the fourth.
class Planned final : public Callback {
 public:
  std::string describe() const override { return "planned"; }
  Decide decision() const override {
    return [](const EpochLogs& logs, EpochDecision& decision) {
      decision.keep = logs.epoch == 1;
      decision.stop = logs.epoch == 3;
      decision.rate_scale *= logs.epoch == 0 ? 0.3 : 1.7;
    };
  }
};

TrainingResult fit(Task& task, TrainingOptions options, const Optimizer& optimizer = optimizers::Adam{}) {
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu),
               layers::dropout(0.2), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizer), task);
  options.epochs = 9;
  options.batch = 16;
  options.quiet = true;
  if (options.callbacks.empty()) options.callbacks = {std::make_shared<Planned>()};
  return model.fit(testing::few_digits(), options);
}

std::string chief_of(const std::vector<std::string>& hashes) {
  for (const std::string& hash : hashes)
    if (hash.size() == 64) return hash;
  return ::testing::PrintToString(hashes);
}

TEST(Callbacks, DecideAlikeInAllModes) {
  testing::JobTasks servers(2, 3), ranks(0, 2);
  for (const Optimizer& optimizer : {Optimizer(optimizers::SGD{.learning_rate = 0.1}),
                                     Optimizer(optimizers::Adam{.learning_rate = Schedule(schedules::Exponential{
                                                                    .rate = 0.01, .factor = 0.5, .every = 20})})}) {
    Task alone;
    const TrainingResult local = fit(alone, {.mode = LocalMode{.slots = 2}}, optimizer);
    EXPECT_EQ(local.steps, 40u);
    EXPECT_EQ(chief_of(servers.run(
                  [&](Task& task) { return fit(task, {.mode = SyncMode{.slots = 2}}, optimizer).params_sha256; })),
              local.params_sha256);
    EXPECT_THAT(ranks.run([&](Task& task) { return fit(task, {.mode = AllReduceMode{}}, optimizer).params_sha256; }),
                ::testing::Each(local.params_sha256));
  }
}

TEST(Callbacks, TheValuesOfTheKeptEpochAreThoseOfATrainingThatEndsThere) {
  Task task;
  class StopsAfterTwo final : public Callback {
   public:
    std::string describe() const override { return "two"; }
    Decide decision() const override {
      return [](const EpochLogs& logs, EpochDecision& decision) {
        decision.stop = logs.epoch == 1;
        decision.rate_scale *= logs.epoch == 0 ? 0.3 : 1.7;
      };
    }
  };
  EXPECT_EQ(fit(task, {}).params_sha256, fit(task, {.callbacks = {std::make_shared<StopsAfterTwo>()}}).params_sha256);
}

TEST(Callbacks, AJobThatResumesDecidesAsBefore) {
  Task whole;
  const std::string expected = fit(whole, {.mode = LocalMode{.slots = 2}}).params_sha256;
  for (const std::uint64_t stop_at : {7, 23, 35}) {  // before the epoch that is kept, after it, in the last
    testing::TemporaryDirectory directory;
    Task task;
    std::atomic<bool> stop = false;
    std::uint64_t steps = 0;
    const auto count = [&](const StepProgress&) { stop = ++steps >= stop_at; };
    TrainingOptions options{.mode = LocalMode{.slots = 2}, .checkpoint = directory.path(), .checkpoint_every = 3};
    options.on_progress = count;
    options.stop = &stop;
    EXPECT_EQ(error_of([&] { fit(task, options); }).code(), Code::cancelled);
    Task again;
    EXPECT_EQ(fit(again, {.mode = LocalMode{.slots = 2}, .checkpoint = directory.path()}).params_sha256, expected)
        << stop_at;
    testing::JobTasks servers(2, 2);  // from the checkpoint at its end
    EXPECT_EQ(chief_of(servers.run([&](Task& one) {
                return fit(one, {.mode = SyncMode{.slots = 2}, .checkpoint = directory.path()}).params_sha256;
              })),
              expected)
        << stop_at;
  }
}

TEST(Callbacks, LogsHaveALineForEachEpoch) {
  testing::TemporaryDirectory directory;
  const std::string csv = directory.file("log.csv"), json = directory.file("log.json");
  Task task;
  std::vector<std::uint32_t> seen;
  fit(task, {.callbacks = {std::make_shared<Planned>(), callbacks::csv_log(csv), callbacks::json_log(json),
                           callbacks::each_epoch([&](const EpochLogs& logs) { seen.push_back(logs.epoch); })}});
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3));
  std::ifstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "epoch,loss,accuracy,val_loss,val_accuracy,examples_per_second,seconds");
  int count = 0;
  while (std::getline(lines, line)) EXPECT_TRUE(line.starts_with(std::to_string(++count) + ",")) << line;
  EXPECT_EQ(count, 4);
  std::ifstream objects(json);
  std::getline(objects, line);
  EXPECT_TRUE(line.starts_with(R"({"epoch":1,"loss":)")) << line;
  EXPECT_EQ(error_of([&] { fit(task, {.callbacks = {callbacks::csv_log(directory.file("no/log.csv"))}}); }).code(),
            Code::unavailable);
}

}  // namespace
}  // namespace troupe
