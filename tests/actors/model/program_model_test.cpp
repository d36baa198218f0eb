// A model of a program of one's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

ProgramOutputs line(ProgramContext& c) {
  const Output slope = c.variable("line/slope", {.shape = {}}, initializers::zeros()).read();
  const Output y = c["x"] * slope;
  return {
      .objectives = {{.loss = mean(squared_difference(y, c["y"])), .optimizer = optimizers::SGD{.learning_rate = 0.1}}},
      .predictions = {{"y", y}, {"twice", y * 2.0}}};
}

TensorDataset points() {
  return TensorDataset({{"x", Tensor::vector<float>({1, 2, 3, -1})}, {"y", Tensor::vector<float>({2, 4, 6, -2})}});
}

TEST(ProgramModel, FitsEvaluatesAndPredicts) {
  Model model(line);
  EXPECT_EQ(error_of([&] { model.evaluate(points()); }).code(), Code::failed_precondition);
  const TrainingResult result = model.fit(points(), points(), {.epochs = 60, .batch = 4, .quiet = true});
  EXPECT_NEAR(model.parameters().at("line/slope").item<float>(), 2, 1e-3);
  EXPECT_LT(result["val_loss"], 1e-5);
  EXPECT_EQ(model.evaluate(points())["loss"], result["val_loss"]);
  const auto predicted = model.predict(points(), 3);
  EXPECT_NEAR(predicted.at("twice").data<float>()[2], 12, 1e-2);
  EXPECT_THAT(error_of([&] { model.predict(Tensor::vector<float>({1})); }).message(), HasSubstr("BatchSource"));
  EXPECT_THAT(error_of([&] { (void)model.summary(); }).message(), HasSubstr("no layers"));
  EXPECT_EQ(error_of([&] { model.compile({.loss = Loss::mean_squared_error}); }).code(), Code::invalid_argument);
}

TEST(ProgramModel, IsLoadedToPredict) {
  testing::TemporaryDirectory directory;
  Model model(line);
  model.fit(points(), {.epochs = 3, .batch = 4, .quiet = true});
  model.save(directory.file("line"));
  Model loaded = Model::load(directory.file("line"));
  EXPECT_EQ(loaded.params_sha256(), model.params_sha256());
  const TensorDataset only_x({{"x", points().tensors()[0]}});  // targets were no input of its predictions
  EXPECT_TRUE(bitwise_equal(loaded.predict(only_x).at("twice"), model.predict(points()).at("twice")));
  EXPECT_TRUE(bitwise_equal(model.predict(points()).at("y"), loaded.predict(points()).at("y")));
  EXPECT_EQ(error_of([&] { loaded.fit(points(), {}); }).code(), Code::failed_precondition);
}

ProgramOutputs few_rows(ProgramContext& c) {
  const VariableRef table =
      c.variable("table", {.shape = Shape{50'000, 4}, .on_demand = true}, initializers::random_uniform());
  const Output y = mean(gather(table.read(), c["ids"]), {1});
  return {.objectives = {
              {.loss = mean(squared_difference(y, c["y"])), .optimizer = optimizers::SGD{.learning_rate = 0.1}}}};
}

// Only rows that training has changed count in it. On a cluster they stay on the shards.
TEST(ProgramModel, TheHashOfTablesOnDemandIsThatOfTheTraining) {
  const TensorDataset data(
      {{"ids", Tensor::vector<std::int64_t>({7, 49'999, 7, 12})}, {"y", Tensor::vector<float>({2, 4, 6, -2})}});
  Model model(few_rows);
  const std::string local = model.fit(data, {.batch = 2, .quiet = true}).params_sha256;
  EXPECT_EQ(model.params_sha256(), local);
  testing::JobTasks tasks(2, 1);
  EXPECT_THAT(tasks.run([&](Task& task) {
    Model member(few_rows);
    member.compile({}, task);
    const TrainingResult result = member.fit(data, {.mode = SyncMode{}, .batch = 2, .quiet = true});
    if (!result.chief) return std::string();
    EXPECT_EQ(result.params_sha256, local);
    return error_of([&] { (void)member.params_sha256(); }).message();
  }),
              ::testing::Contains(HasSubstr("TrainingResult::params_sha256 is the hash with them")));
}

// Feeds the factor of the loss, and sees the slope that each step computed with.
class Watch final : public TrainingHook {
 public:
  std::vector<std::string> feeds() const override { return {"factor"}; }
  std::vector<std::string> fetches() const override { return {"line/slope/read"}; }
  void begin(const Graph& graph) override { told.push_back(graph.find("factor") ? "begin" : "no factor"); }
  std::vector<Tensor> before_step(const HookStep& at) override {
    told.push_back(fmt::format("before {}", at.step));
    return {Tensor::scalar(at.step == 0 ? 0.0F : 1.0F)};
  }
  void after_step(const HookStep& at, const std::vector<Tensor>& fetched) override {
    told.push_back(fmt::format("after {}", at.step));
    slopes.push_back(fetched.at(0).item<float>());
  }
  void end() override { told.push_back("end"); }
  void error(const Error& why) override { told.push_back(why.message()); }

  std::vector<std::string> told;
  std::vector<float> slopes;
};

ProgramOutputs scaled_line(ProgramContext& c) {
  ProgramOutputs out = line(c);
  const Output factor = constant(c.graph, Tensor::scalar(1.0F), "factor");
  out.objectives[0].loss = out.objectives[0].loss * factor;
  return out;
}

TEST(ProgramModel, HooksAreCalledAroundEachStep) {
  const auto watch = std::make_shared<Watch>();
  Model(scaled_line).fit(points(), {.epochs = 1, .batch = 2, .quiet = true, .hooks = {watch}});
  EXPECT_THAT(watch->told, ::testing::ElementsAre("begin", "before 0", "after 0", "before 1", "after 1", "end"));
  EXPECT_THAT(watch->slopes, ::testing::ElementsAre(0, 0)) << "the first step was fed 0";
  std::vector<std::shared_ptr<Watch>> watches = {std::make_shared<Watch>(), std::make_shared<Watch>()};
  testing::JobTasks servers(1, 2), ranks(0, 2);
  servers.run([&](Task& task) {
    Model model(scaled_line);
    model.compile({}, task);
    TrainingOptions options{.mode = SyncMode{}, .epochs = 3, .batch = 1, .quiet = true};
    if (task.name().job == "worker") options.hooks = {watches[static_cast<std::size_t>(task.name().index)]};
    return model.fit(points(), options).params_sha256;
  });
  EXPECT_EQ(watches[0]->slopes.size() + watches[1]->slopes.size(), 12u);
  const auto before = watches[0]->slopes.size();
  ranks.run([&](Task& task) {
    Model model(scaled_line);
    model.compile({}, task);
    return model
        .fit(points(), {.mode = AllReduceMode{},
                        .epochs = 3,
                        .batch = 1,
                        .quiet = true,
                        .hooks = {watches[static_cast<std::size_t>(task.name().index)]}})
        .params_sha256;
  });
  EXPECT_EQ(watches[0]->slopes.size(), before + 6);
  class Wrong final : public TrainingHook {
    std::vector<std::string> fetches() const override { return {"nothing"}; }
  };
  EXPECT_EQ(error_of([&] {
              Model(scaled_line).fit(points(), {.batch = 2, .quiet = true, .hooks = {std::make_shared<Wrong>()}});
            }).code(),
            Code::not_found);
}

TEST(ProgramModel, FittingTwiceIsFittingLonger) {
  const TrainingOptions options{.epochs = 2, .batch = 2, .quiet = true};
  TrainingOptions whole = options;
  whole.epochs = 4;
  Model once(line), twice(line);
  once.fit(points(), whole);
  twice.fit(points(), options);
  twice.fit(points(), options);
  EXPECT_EQ(twice.params_sha256(), once.params_sha256());
}

}  // namespace
}  // namespace troupe
