#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "apps/console.hpp"
#include "apps/mnist/options.hpp"
#include "apps/mnist/report.hpp"
#include "apps/training_report.hpp"
#include <troupe/actors/training/training_report.hpp>

namespace troupe {
namespace {

using namespace std::chrono_literals;

const EpochLogs kEpoch{.epoch = 1,
                       .figures = {{"loss", 0.5}, {"accuracy", 0.875}, {"val_loss", 0.25}, {"val_accuracy", 0.9375}},
                       .examples_per_second = 5210.4};
const TrainingResult kResult{.chief = true,
                             .figures = {{"val_accuracy", 0.978}},
                             .steps = 1875,
                             .seconds = 11.5,
                             .examples_per_second = 5217.5,
                             .params_sha256 = "ab12"};

TEST(MnistReport, JsonLinesHaveTheDocumentedKeysInOrder) {
  EXPECT_EQ(epoch_json(kEpoch),
            R"({"event":"epoch","epoch":2,"loss":0.5,"train_accuracy":0.875,"test_accuracy":0.9375,)"
            R"("images_per_second":5210.4})");
  EXPECT_EQ(final_json(kResult),
            R"({"event":"final","test_accuracy":0.978,"steps":1875,"seconds":11.5,"images_per_second":5217.5,)"
            R"("params_sha256":"ab12"})");
}

TEST(MnistReport, ALossThatIsNoNumberIsStillJson) {
  EpochLogs epoch = kEpoch;
  epoch.figures[0].second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(epoch_json(epoch).find(R"("loss":null)"), std::string::npos);
}

TEST(MnistReport, TextIsForPeople) {
  EXPECT_EQ(to_string(kEpoch, 5),
            "Epoch 2/5: loss 0.5000, accuracy 0.8750, val_loss 0.2500, val_accuracy 0.9375, 5210 examples/s");
  EXPECT_EQ(final_text(kResult), "1875 steps in 11.50 s, 5218 images/s, parameters ab12\nTest accuracy: 0.9780");
}

constexpr const char* kWhat = "mlp on 3 built-in digits, testing on 2";

// What a Console prints, in memory.
class MnistConsole : public ::testing::Test {
 protected:
  MnistConsole() : out_(open_memstream(&out_text_, &size_)), err_(open_memstream(&err_text_, &size_)) {}
  ~MnistConsole() override {
    std::fclose(out_);
    std::fclose(err_);
    std::free(out_text_);
    std::free(err_text_);
  }
  std::string out() { return std::fflush(out_) == 0 ? out_text_ : "?"; }
  std::string err() { return std::fflush(err_) == 0 ? err_text_ : "?"; }

  // Of ten, without figures.
  StepProgress step(std::uint64_t number, bool chief = true) const {
    return {.epoch = 0, .step = number, .steps = 10, .chief = chief, .sums = sums_, .results = results_};
  }

  const NamedSums sums_;
  const std::map<std::string, FigureResult> results_;
  char* out_text_ = nullptr;
  char* err_text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* out_;
  std::FILE* err_;
  MnistOptions options_;
};

TEST_F(MnistConsole, JsonHasNothingElseOnStdout) {
  options_.json = true;
  Console console("troupe-mnist", options_, out_, err_, false);
  console.begin(kWhat);
  console.progress(step(1), Progress::Time(0s));
  console.progress(step(5), Progress::Time(10s));
  console.line(epoch_json(kEpoch));
  console.note("a warning");
  console.line(final_json(kResult));
  EXPECT_EQ(out(), epoch_json(kEpoch) + "\n" + final_json(kResult) + "\n");
  EXPECT_EQ(err(), "Epoch 1/5: step 5 of 10, 13 s left\ntroupe-mnist: a warning\n");
}

// Under troupe-launch what other tasks than the chief print on stdout comes to stderr, too.
TEST_F(MnistConsole, AnEventIsToldOnce) {
  const JobEvent event{.kind = "lost", .text = "/job:worker/task:1 was lost"};
  Console("troupe-mnist", options_, out_, err_, false).event(event);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "troupe-mnist: /job:worker/task:1 was lost\n");
  options_.json = true;
  Console("troupe-mnist", options_, out_, err_, false).event(event);
  EXPECT_THAT(out(), ::testing::HasSubstr(R"("text":"/job:worker/task:1 was lost")"));
  EXPECT_EQ(err(), "troupe-mnist: /job:worker/task:1 was lost\n");
}

TEST_F(MnistConsole, TextBeginsWithWhatIsTrained) {
  Console console("troupe-mnist", options_, out_, err_, false);
  console.begin(kWhat);
  EXPECT_EQ(out(), "Training mlp on 3 built-in digits, testing on 2: mode local, 5 epochs, batches of 32\n");
}

TEST_F(MnistConsole, OtherTasksThanTheChiefShowNoProgress) {
  options_.in_cluster = true;
  options_.membership = {.job = "worker", .index = 1};
  Console console("troupe-mnist", options_, out_, err_, true);
  console.begin(kWhat);
  console.progress(step(1, false), Progress::Time(0s));
  EXPECT_EQ(out() + err(), "");
}

TEST_F(MnistConsole, TheBarGoesBeforeALineComes) {
  Console console("troupe-mnist", options_, out_, err_, true);
  console.progress(step(1), Progress::Time(0s));
  const std::string bar = err();
  console.line(epoch_json(kEpoch));
  console.line(final_json(kResult));
  EXPECT_EQ(err(), bar + "\r\x1b[K");
}

}  // namespace
}  // namespace troupe
