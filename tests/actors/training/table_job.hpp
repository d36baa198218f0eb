// A program whose tables are read by rows: one lies in pieces on all shards and is looked up twice, by ids of two
// dtypes; the other is whole on one.
#pragma once

#include <random>
#include <string>

#include <troupe/actors/training/training_plan.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>
#include <troupe/troupe.hpp>

namespace troupe::testing {

inline constexpr std::int64_t kTableRows = 40'003, kTableWidth = 30;  // 4.8 MB

// Few ids are frequent, so that a batch has some of them several times.
inline TensorDataset table_examples(std::int64_t examples) {
  std::mt19937 random(5);
  const auto id = [&](std::int64_t rows) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    return static_cast<std::int64_t>(static_cast<double>(rows) * u * u * u * u);
  };
  std::vector<std::int64_t> ids, tags;
  std::vector<std::int32_t> more;
  std::vector<float> y;
  for (std::int64_t i = 0; i < examples; ++i) {
    for (int k = 0; k < 3; ++k) ids.push_back(id(kTableRows));
    more.push_back(static_cast<std::int32_t>(id(kTableRows)));
    for (int k = 0; k < 2; ++k) tags.push_back(id(3000));
    y.push_back(static_cast<float>(ids.back() % 2));
  }
  return TensorDataset({{"ids", Tensor::of<std::int64_t>(Shape{examples, 3}, ids)},
                        {"more", Tensor::of<std::int32_t>(Shape{examples}, more)},
                        {"tags", Tensor::of<std::int64_t>(Shape{examples, 2}, tags)},
                        {"y", Tensor::of<float>(Shape{examples, 1}, std::span<const float>(y))}});
}

struct TableProgram {
  Optimizer optimizer = optimizers::Adagrad{.learning_rate = 0.1};
  DType dtype = DType::f32;
  bool on_demand = false;
  std::int64_t rows = kTableRows;

  ProgramOutputs operator()(ProgramContext& c) const {
    const VariableRef items =
        c.variable("items/table", {.dtype = dtype, .shape = Shape{rows, kTableWidth}, .on_demand = on_demand},
                   initializers::random_uniform());
    const VariableRef tags =
        c.variable("tags/table", {.dtype = dtype, .shape = Shape{3000, 16}, .on_demand = on_demand},
                   initializers::random_normal());
    const VariableRef w =
        c.variable("out/w", {.shape = Shape{2 * kTableWidth + 16, 1}}, initializers::glorot_uniform());
    const Output first = mean(cast(gather(items.read(), c["ids"]), DType::f32), {1});
    const Output second = cast(gather(items.read(), c["more"]), DType::f32);
    const Output third = sum(cast(gather(tags.read(), c["tags"]), DType::f32), {1});
    const Output y = matmul(concat({first, second, third}, 1), w.read());
    return {.objectives = {{.name = "error", .loss = mean(squared_difference(y, c["y"])), .optimizer = optimizer}}};
  }
};

struct TableJob {
  Program program = TableProgram{};
  const BatchSource& train;
  const BatchSource* evaluation = nullptr;
  TrainingOptions options{};
};

inline TrainingResult run_table_job(const TableJob& job, Task& task, TrainingState& state) {
  const TrainingPlan plan{.program = job.program,
                          .description = "tables",
                          .train = job.train,
                          .evaluation = job.evaluation,
                          .options = job.options,
                          .state = state,
                          .task = task};
  return troupe::train(plan);
}

}  // namespace troupe::testing
