// Predictions by the workers of a cluster, some of which are lost meanwhile.
#include "troupe/actors/model/batch_inference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <random>

#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

Tensor drawn(const Shape& shape, std::uint32_t seed) {
  std::mt19937 random(seed);
  Tensor out(DType::f32, shape);
  for (float& x : out.mutable_values<float>()) x = static_cast<float>(random() >> 8) / (1 << 23) - 1;
  return out;
}

// scores = tanh(x a) b
SavedModel two_layers() {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  Graph& graph = *out.graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, 8}, "x");
  const VariableRef a = variable(graph, {.name = "a", .shape = Shape{8, 16}});
  const VariableRef b = variable(graph, {.name = "b", .shape = Shape{16, 3}});
  matmul(tanh(matmul(x, a.read())), b.read(), {.name = "y"});
  out.values = {{"a", drawn({8, 16}, 1)}, {"b", drawn({16, 3}, 2)}};
  out.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, Shape{kUnknown, 8}}}},
                               .outputs = {{"scores", {"y", DType::f32, Shape{kUnknown, 3}}}}};
  return out;
}

Tensor examples_of(std::uint64_t step, std::int64_t examples) {
  return drawn({examples, 8}, static_cast<std::uint32_t>(100 + step));
}

// Batches of examples_of(), for as long as `more` says before each.
class DrawnBatches final : public BatchSource {
 public:
  using More = std::function<bool(std::uint64_t step)>;
  explicit DrawnBatches(More more) : more_(std::move(more)) {}
  const BatchSchema& schema() const override { return schema_; }
  std::optional<std::uint64_t> examples() const override { return std::nullopt; }
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override {
    return std::make_unique<Reader>(more_, plan.batch);
  }

 private:
  class Reader final : public BatchReader {
   public:
    Reader(const More& more, std::int64_t batch) : more_(more), batch_(batch) {}
    std::optional<UnmadeBatch> begin(std::uint32_t, std::uint64_t step, std::uint32_t) override {
      if (!more_(step)) return std::nullopt;
      return UnmadeBatch{.step = step, .examples = batch_};
    }
    Batch make(UnmadeBatch&& unmade) const override {
      return {.components = {examples_of(unmade.step, batch_)}, .examples = batch_};
    }

   private:
    const More& more_;
    const std::int64_t batch_;
  };

  const More more_;
  const BatchSchema schema_{{.name = "x", .dtype = DType::f32, .shape = {8}}};
};

// Workers, and a client that their file does not name.
class BatchInference : public ::testing::Test {
 protected:
  void start(int workers, int devices = 1) {
    std::vector<TaskOptions> tasks;
    for (int i = 0; i < workers; ++i) tasks.push_back({.name = {"worker", i}, .cpu_devices = devices});
    cluster_.emplace(std::move(tasks));
    client_ = std::make_unique<Task>(TaskOptions{.name = {"client", 0}, .threads = 1, .networked = true});
    client_->join(cluster_->spec(), kPatience, "worker");
    model_.emplace(two_layers(), LoadedModelOptions{.task = client_.get()});
  }
  void TearDown() override {
    model_.reset();
    EXPECT_TRUE(!client_ || client_->shutdown());
    EXPECT_TRUE(!back_ || back_->shutdown());
  }

  // Predicts until the source ends, and expects the batches in order with the results of this process alone.
  BatchInferenceProgress predict(const DrawnBatches::More& more, BatchInferenceOptions options = {}) {
    options.batch = 4;
    options.rejoin_timeout = kPatience;
    options.losses_of_batch = losses_of_batch_;
    options.on_progress = [this](const BatchInferenceProgress& at) { devices_ = at.devices; };
    options.on_event = [this](const std::string& text) { events_ += text + "\n"; };
    const LoadedModel alone(two_layers());
    const ModelCallable expected = alone.callable("predict");
    return model_->predict("predict", DrawnBatches(more), options, [&](PredictedBatch&& batch) {
      ASSERT_EQ(batch.number, taken_++);
      ASSERT_EQ(batch.first_example, 4 * batch.number);
      EXPECT_TRUE(bitwise_equal(batch.outputs.at("scores"), expected({examples_of(batch.number, 4)})[0]))
          << batch.number;
    });
  }
  bool happened(const std::string& text) const { return events_.find(text) != events_.npos; }

  std::optional<TaskCluster> cluster_;
  std::unique_ptr<Task> client_, back_;
  std::optional<LoadedModel> model_;
  std::size_t devices_ = 0;
  std::uint64_t taken_ = 0;
  std::string events_;
  int losses_of_batch_ = 5;
};

TEST_F(BatchInference, HasTheBitsOfOneProcess) {
  start(2, 2);
  const TensorDataset source({{"unused", drawn({103}, 7)}, {"x", drawn({103, 8}, 6)}});
  BatchInferenceProgress last;
  const BatchInferenceOptions options{.batch = 8, .on_progress = [&](const BatchInferenceProgress& at) { last = at; }};
  const Tensor found = model_->predict("predict", source, options).at("scores");
  EXPECT_EQ(found.shape(), (Shape{103, 3}));
  EXPECT_EQ(last.examples, 103u);
  EXPECT_EQ(last.batches, 13u);
  EXPECT_EQ(last.all_devices, 4u);
  EXPECT_TRUE(bitwise_equal(found, LoadedModel(two_layers()).predict("predict", source, options).at("scores")));
}

TEST_F(BatchInference, UsesAllDevicesAndReadsNoMoreThanTheWindow) {
  start(2);
  std::optional<std::uint64_t> last;
  const BatchInferenceProgress end = predict(
      [&](std::uint64_t step) {
        EXPECT_LT(step - taken_, 3u);
        if (!last && devices_ == 2) last = step + 10;
        return !last || step < *last;
      },
      {.window = 3});
  EXPECT_EQ(end.all_devices, 2u);
  EXPECT_EQ(end.batches, *last);
  EXPECT_EQ(end.examples, 4 * *last);
  EXPECT_EQ(taken_, *last);
}

TEST_F(BatchInference, BatchesOfALostWorkerRunOnOthersAndItIsUsedAgainWhenItIsBack) {
  start(2);
  std::optional<std::uint64_t> lost, last;
  std::future<void> joining;
  const BatchInferenceProgress end = predict([&](std::uint64_t step) {
    if (!lost && devices_ == 2) lost = step;
    if (lost == step) cluster_->shut_down(1);
    if (!back_ && happened("/job:worker/task:1/device:CPU:0 is lost")) {
      back_ = std::make_unique<Task>(TaskOptions{.name = {"worker", 1},
                                                 .threads = 1,
                                                 .port = cluster_->spec().address({"worker", 1}).port,
                                                 .networked = true});
      joining = std::async(std::launch::async, [this] { back_->join(cluster_->spec(), kPatience); });
    }
    if (!last && happened("/job:worker/task:1/device:CPU:0 computes again")) last = step + 10;
    return !last || step < *last;
  });
  joining.get();
  EXPECT_EQ(taken_, *last);
  EXPECT_EQ(end.devices, 2u);
  EXPECT_GT(end.started_again, 0u);
}

TEST_F(BatchInference, WithoutAnyWorkerItWaitsAndSaysHowFarItCame) {
  start(1);
  const TensorDataset source({{"x", drawn({64, 8}, 6)}});
  std::uint64_t done = 0;
  const Error error = error_of([&] {
    model_->predict("predict", source,
                    {.batch = 8,
                     .window = 1,
                     .rejoin_timeout = std::chrono::milliseconds(100),
                     .on_event = [this](const std::string& text) { events_ += text + "\n"; },
                     .wait_word = std::chrono::nanoseconds(0)},
                    [&](PredictedBatch&&) {
                      if (++done == 3) cluster_->shut_down(0);
                    });
  });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.message(), HasSubstr("no device of job 'worker' has come back within 0.1 s: 3 batches, 24 examples "
                                         "of 64 are done; the last was lost because of: "));
  EXPECT_TRUE(happened("/job:worker/task:0/device:CPU:0 is lost, with 1 batch to start again: ")) << events_;
  EXPECT_TRUE(happened("all devices are lost: waits for one of job 'worker', for 0.0 of 0.1 s; 3 batches")) << events_;
}

TEST_F(BatchInference, ABatchThatManyWorkersWereLostWithFails) {
  start(1);
  losses_of_batch_ = 1;
  const Error error = error_of([&] {
    predict([&](std::uint64_t step) {
      if (step == 3) cluster_->shut_down(0);
      return true;
    });
  });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.message(), HasSubstr(": 1 devices were lost while they computed it, the last, "
                                         "/job:worker/task:0/device:CPU:0: "));
}

// rows = table[ids]
TEST_F(BatchInference, ABatchThatCannotBeComputedFailsAndIsNamed) {
  start(2);
  SavedModel rows{.graph = std::make_shared<Graph>()};
  const Output ids = placeholder(*rows.graph, DType::i64, {kUnknown}, "ids");
  gather(constant(*rows.graph, drawn({10, 2}, 3)), ids, {.name = "rows"});
  rows.signatures["predict"] = {.inputs = {{"ids", {"ids", DType::i64, Shape{kUnknown}}}},
                                .outputs = {{"rows", {"rows", DType::f32, Shape{kUnknown, 2}}}}};
  Tensor given = Tensor::zeros(DType::i64, {40});
  given.mutable_data<std::int64_t>()[22] = 10;
  const LoadedModel model(std::move(rows), {.task = client_.get()});
  const Error error = error_of([&] { model.predict("predict", TensorDataset({{"ids", given}}), {.batch = 4}); });
  EXPECT_EQ(error.code(), Code::invalid_argument) << error.message();
  EXPECT_THAT(error.message(), HasSubstr("batch 5 (examples 20 to 23): "));
}

TEST_F(BatchInference, WhatDoesNotFitIsNamed) {
  start(1);
  const auto error = [&](const std::string& component, const Tensor& given, BatchInferenceOptions options = {}) {
    return error_of([&] { model_->predict("predict", TensorDataset({{component, given}}), options); }).message();
  };
  EXPECT_THAT(error("z", drawn({4, 8}, 1)), HasSubstr("input 'x' f32[?,8] of signature 'predict' has no component"));
  EXPECT_THAT(error("x", drawn({4, 9}, 1)), HasSubstr("does not take examples f32[9]"));
  EXPECT_THAT(error("x", drawn({4, 8}, 1), {.batch = -1}), HasSubstr("batches of -1 examples"));
  EXPECT_THAT(error("x", drawn({4, 8}, 1), {.job = "judge"}), HasSubstr("has met no task of job 'judge'"));
  const LoadedModel changing(two_layers(), {.task = client_.get(), .freeze = false});
  EXPECT_EQ(error_of([&] {
              changing.predict("predict", TensorDataset({{"x", drawn({4, 8}, 1)}}));
            }).code(),
            Code::failed_precondition);
}

// Here the task itself computes: it is in no cluster.
TEST_F(BatchInference, AModelPredictsTheSame) {
  const TemporaryDirectory directory;
  save_model(posix_file_system(), directory.file("m"), two_layers());
  Model model = Model::load(directory.file("m"));
  const TensorDataset source({{"x", drawn({10, 8}, 6)}});
  EXPECT_TRUE(bitwise_equal(model.predict(source, {.batch = 4}).at("scores"), model.predict(source, 4).at("scores")));
}

}  // namespace
}  // namespace troupe::testing
