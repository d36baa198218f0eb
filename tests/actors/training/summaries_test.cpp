// Summaries of a program that trains: what TensorBoard gets in each mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/tensorboard/event_reader.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/graph/training/towers.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// y = slope x, learnt by SGD from x = 1, 2, ... Each batch has the same examples.
ProgramOutputs watched_line(ProgramContext& c) {
  const VariableRef slope = c.variable("slope", {.shape = {}}, initializers::zeros());
  const Output now = slope.read();
  const Output error = now * c["x"] - c["y"];
  const auto scope = c.graph.scope("line");
  summary::scalar("slope", now);
  summary::scalar("examples", mean(shape_of(c["x"])));
  summary::histogram("errors", error);
  summary::text("words", constant(c.graph, Tensor::scalar(std::string("a *line*"))));
  summary::image("x", reshape(c["x"], {-1, 1, 1, 1}), 1);
  return {.objectives = {{.loss = mean(error * error), .optimizer = optimizers::SGD{.learning_rate = 0.125}}}};
}

ProgramOutputs plain_line(ProgramContext& c) {
  const VariableRef slope = c.variable("slope", {.shape = {}}, initializers::zeros());
  const Output error = slope.read() * c["x"] - c["y"];
  return {.objectives = {{.loss = mean(error * error), .optimizer = optimizers::SGD{.learning_rate = 0.125}}}};
}

// 8 steps of 2 slots of 2 examples, x = 1 and y = 2: the slope begins with 0 and comes to 2 - 2 (3/4)^t.
class TrainedSummaries : public ::testing::Test {
 protected:
  std::string fit(Task& task, const TrainingOptions& options, const Program& program = watched_line) const {
    Model model(program);
    model.compile({}, task);
    return model.fit(data, options).params_sha256;
  }
  TrainingOptions options(const JobMode& mode, bool curves = true) const {
    TrainingOptions out{.mode = mode, .epochs = 1, .batch = 2, .quiet = true};
    if (curves) out.tensorboard = directory.file("curves");
    out.tensorboard_every = 3;
    return out;
  }
  // Those of the program.
  void expect_all() const {
    std::map<std::string, std::vector<std::pair<std::int64_t, proto::tensorboard::Summary::Value>>> values;
    for (const std::string& path : testing::event_files(directory.file("curves")))
      for (const auto& event : testing::read_events(path))
        for (const auto& value : event.summary().value())
          if (value.tag().starts_with("line/")) values[value.tag()].emplace_back(event.step(), value);
    ASSERT_EQ(values.size(), 5u);
    for (const auto& [tag, points] : values) {
      std::vector<std::int64_t> steps;
      for (const auto& [step, value] : points) steps.push_back(step);
      EXPECT_THAT(steps, ElementsAre(1, 4, 7)) << tag;
    }
    float slope = 0;
    for (const auto& [step, value] : values.at("line/slope")) {
      for (std::int64_t update = step == 1 ? 3 : 0; update < 3; ++update) slope = slope + 0.25F * (2 - slope);
      EXPECT_EQ(value.simple_value(), slope) << step;
    }
    EXPECT_EQ(values.at("line/examples")[0].second.simple_value(), 2);
    EXPECT_EQ(values.at("line/errors")[0].second.histo().num(), 2);
    EXPECT_EQ(values.at("line/errors")[0].second.histo().max(), -2);
    EXPECT_EQ(values.at("line/words")[0].second.tensor().string_val(0), "a *line*");
    EXPECT_EQ(values.at("line/x/image")[0].second.image().colorspace(), 1);
  }

  const testing::TemporaryDirectory directory;
  const TensorDataset data{{{"x", Tensor::of<float>(Shape{32}, std::vector<float>(32, 1))},
                            {"y", Tensor::of<float>(Shape{32}, std::vector<float>(32, 2))}}};
};

TEST_F(TrainedSummaries, OfOneProcessAreThoseOfItsFirstSlot) {
  Task task({.threads = 1});
  const std::string hash = fit(task, options(LocalMode{.slots = 2}));
  expect_all();
  EXPECT_EQ(fit(task, options(LocalMode{.slots = 2}, false)), hash);
  EXPECT_EQ(fit(task, options(LocalMode{.slots = 2}), plain_line), hash);
}

TEST_F(TrainedSummaries, OfJobsWithShardsAreThoseOfTheChief) {
  testing::JobTasks tasks(2, 1);
  const auto out = tasks.run([&](Task& task) { return fit(task, options(SyncMode{.slots = 2})); });
  expect_all();
  Task alone({.threads = 1});
  EXPECT_THAT(out, ::testing::Contains(fit(alone, options(LocalMode{.slots = 2}, false))));
}

TEST_F(TrainedSummaries, OfRanksAreThoseOfTheFirst) {
  testing::JobTasks tasks(0, 2);
  const auto out = tasks.run([&](Task& task) { return fit(task, options(AllReduceMode{})); });
  expect_all();
  Task alone({.threads = 1});
  EXPECT_THAT(out, Each(fit(alone, options(LocalMode{.slots = 2}, false))));
}

// Two phases: b follows a, which follows y.
ProgramOutputs watched_pursuit(ProgramContext& c) {
  const Output a = c.variable("a", {.shape = {}}, initializers::zeros()).read();
  const Output b = c.variable("b", {.shape = {}}, initializers::zeros()).read();
  const Output to_y = a - c["y"], to_a = stop_gradient(a) - b;
  summary::scalar("distance", mean(to_a));
  const Optimizer sgd = optimizers::SGD{.learning_rate = 0.125};
  return {.objectives = {{.name = "first", .loss = mean(to_y * to_y), .train = {"a"}, .optimizer = sgd},
                         {.name = "second", .loss = mean(to_a * to_a), .train = {"b"}, .optimizer = sgd}}};
}

TEST_F(TrainedSummaries, MayReadWhatLaterPhasesTrain) {
  const auto distances = [&](const JobMode& mode, const std::function<void(const TrainingOptions&)>& train) {
    TrainingOptions out = options(mode);
    out.tensorboard = directory.file(std::string(name(mode)));
    train(out);
    return testing::read_curves(out.tensorboard).scalars.at("distance");
  };
  const auto local = distances(LocalMode{.slots = 2}, [&](const TrainingOptions& options) {
    Task task({.threads = 1});
    fit(task, options, watched_pursuit);
  });
  ASSERT_EQ(local.size(), 3u);
  EXPECT_EQ(local[0].value, 0);
  EXPECT_GT(local[1].value, 0);
  for (const auto& [mode, ps, workers] : std::initializer_list<std::tuple<JobMode, int, int>>{
           {SyncMode{.slots = 2}, 2, 1}, {SspMode{.staleness = 0, .slots = 2}, 2, 1}, {AllReduceMode{}, 0, 2}})
    EXPECT_EQ(distances(mode,
                        [&, ps = ps, workers = workers](const TrainingOptions& options) {
                          testing::JobTasks tasks(ps, workers);
                          tasks.run([&](Task& task) { return fit(task, options, watched_pursuit); });
                        }),
              local)
        << name(mode);
}

// A layer of one's own, twice.
struct Watched final : Layer {
  std::string kind() const override { return "watched"; }
  Output apply(LayerContext&, Output x) const override {
    summary::histogram("values", x);
    return x;
  }
};

TEST_F(TrainedSummaries, OfLayersHaveTheirNames) {
  Task task({.threads = 1});
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), std::make_shared<Watched>(), layers::dense(10),
               std::make_shared<Watched>()},
              Shape{28, 28, 1}, DType::u8);
  model.compile({.loss = Loss::sparse_softmax_cross_entropy}, task);
  model.fit(draw_digits({.train = 64, .test = 8}),
            {.epochs = 1, .batch = 16, .tensorboard = directory.file("curves"), .quiet = true});
  const auto histograms = testing::read_curves(directory.file("curves")).histograms;
  EXPECT_EQ(histograms.at("watched/values").at(0).second.num(), 16 * 784);
  EXPECT_EQ(histograms.at("watched_1/values").at(0).second.num(), 16 * 10);
}

TEST_F(TrainedSummaries, OfMicroBatchesAreThoseOfTheFirst) {
  const TrainingGraph graph =
      build_training_graph(watched_line, data.schema(), {.slots = 2, .batch = 4, .micro_batches = 2});
  std::vector<std::string> tags;
  for (const SummaryOutput& summary : graph.summaries) tags.push_back(summary.tag);
  EXPECT_THAT(tags, ElementsAre("line/slope", "line/examples", "line/errors", "line/words", "line/x"));
  EXPECT_EQ(graph.summaries[2].value.shape(), Shape{2});
}

}  // namespace
}  // namespace troupe
