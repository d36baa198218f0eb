// Training on shards pipelines with compute: in which order a worker's plan pulls, computes and pushes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/kernels/kernels.hpp>
#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<const Plan> plan_of(const Graph& callable) {
  KernelRegistry kernels;
  register_all_kernels(kernels);
  return build_plan(callable, kernels, "CPU", "/device:CPU:0");
}

std::unique_ptr<const Plan> worker_plan() {
  const Sequential model({layers::dense(5, Activation::relu), layers::dense(4, Activation::relu), layers::dense(3)});
  const testing::ClassifierGraph training =
      testing::classifier_graph(model, Shape{6}, optimizers::SGD{}, {.batch = 2, .on_shards = true});
  const ShardedGraph sharded = shard_variables(*training.graph, ShardMap(updated_variables(*training.graph), 1));
  const auto name = [&](const Output& output) { return output_name(*training.graph, {output.node, output.index}); };
  const auto call = make_callable_graph(*sharded.graph, {.feeds = {name(training.images[0]), name(training.labels[0])},
                                                         .fetches = {name(training.loss_sum)},
                                                         .targets = {training.train.source().name}});
  return plan_of(*call);
}

// "train/dense_1/kernel/push_3" -> "dense_1"
std::string layer_of(std::string name) {
  if (name.starts_with("train/")) name = name.substr(6);
  return name.substr(0, name.find('/'));
}

std::vector<std::string> without_repeats(std::vector<std::string> names) {
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

TEST(TrainingPipeline, ParametersArePulledInTheOrderTheForwardPassNeedsThem) {
  const auto plan = worker_plan();
  std::vector<std::string> layers;
  for (const Arrival& a : plan->arrivals) layers.push_back(layer_of(a.name));
  EXPECT_EQ(layers.size(), 6u);
  EXPECT_THAT(without_repeats(layers), ElementsAre("dense", "dense_1", "dense_2")) << plan->dump();
}

TEST(TrainingPipeline, GradientsLeaveInTheOrderBackpropMakesThem) {
  const auto plan = worker_plan();
  std::vector<std::string> layers;
  bool kernels_between = false;  // between the first and the last
  for (const PlanNode& node : plan->nodes) {
    if (node.kind == PlanNode::Kind::push) layers.push_back(layer_of(plan->info(node).name));
    kernels_between |= node.kind == PlanNode::Kind::kernel && layers.size() == 2;
  }
  EXPECT_TRUE(kernels_between) << plan->dump();
  EXPECT_EQ(layers.size(), 6u);
  EXPECT_THAT(without_repeats(layers), ElementsAre("dense_2", "dense_1", "dense")) << plan->dump();
}

// A layer's products wait for its own parameters and the layers before, and for no others.
TEST(TrainingPipeline, ALayerStartsWhenItsOwnParametersHaveCome) {
  const auto plan = worker_plan();
  std::vector<std::size_t> first_use;  // by arrival: the first segment that waits for it
  for (const Arrival& a : plan->arrivals) first_use.push_back(*std::ranges::min_element(a.segments));
  EXPECT_TRUE(std::ranges::is_sorted(first_use)) << plan->dump();
  EXPECT_NE(first_use.front(), first_use.back());
  EXPECT_EQ(plan->segments[first_use.front()].waits, 1u) << plan->dump();
}

// A convolutional model, whose activations take more than its parameters.
std::size_t memory_of_a_step(std::int64_t batch, int micro_batches) {
  const Sequential model(
      {layers::conv2d(16, 3, Activation::relu), layers::max_pool(2), layers::flatten(), layers::dense(10)});
  const testing::ClassifierGraph training = testing::classifier_graph(model, Shape{28, 28, 1}, optimizers::SGD{},
                                                                      {.batch = batch, .micro_batches = micro_batches});
  const auto call = make_callable_graph(
      *training.graph, {.feeds = {"images", "labels"}, .fetches = {training.loss_sum.name()}, .targets = {"train"}});
  const MemoryPlan memory = plan_of(*call)->memory;
  EXPECT_EQ(memory.unknown_slots, 0u);
  return memory.peak_bytes;
}

// And not more, the more parts there are.
TEST(MicroBatches, ABatchTakesTheMemoryOfAPart) {
  const std::size_t whole = memory_of_a_step(64, 1), parts = memory_of_a_step(64, 8), part = memory_of_a_step(8, 1);
  EXPECT_LT(parts, whole / 4) << whole;
  EXPECT_LT(parts, 2 * part);
  EXPECT_EQ(memory_of_a_step(128, 16), parts);
}

}  // namespace
}  // namespace troupe
