// Averages of weights: better models than the last weights alone, at the cost of one more variable each.
//
//   Output train = minimize(loss, optimizers::SGD{.learning_rate = 0.1, .average = averages::Exponential{}});
//   for (const AveragedVariable& v : weight_averages(graph)) session.run({}, {v.average.read()});
//
// w(t) are the weights after t updates, w(0) the first ones. Update t + 1 adds w(t), the weights that its gradients
// were computed at. (Keras adds w(t + 1): its average is one update ahead.)
//
// An average is a variable beside the weights, "dense/kernel/average", not trainable and of the same dtype, that starts
// from the same value. It is moved as graph/optimizers/running_average.hpp moves its own, so every mode of training
// maintains it: on parameter servers it is on a shard, pulled and pushed like the weights. A step skipped by loss
// scaling does not move it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/optimizers/schedules.hpp>

namespace troupe {

namespace averages {

// Polyak, Juditsky, "Acceleration of stochastic approximation by averaging" (1992), with weights that fall off:
//   average = w(1), then momentum average + (1 - momentum) w(t)
struct Exponential {
  double momentum = 0.99;
};
// Izmailov et al., "Averaging weights leads to wider optima and better generalization" (UAI 2018): the mean of w(from),
// w(from + every), w(from + 2 every), ...; before `from`, the first weights.
struct Stochastic {
  std::int64_t from = 0;
  std::int64_t every = 1;
};

}  // namespace averages

using WeightAverage = std::variant<averages::Exponential, averages::Stochastic>;

// The part of w(t) in the average after update t + 1.
Schedule part_of_weights(const WeightAverage& average);
// The first invalid option, like "average: momentum must be in [0, 1), not 1"; "" if all are valid.
std::string problem(const WeightAverage& average);
// "exponential(momentum=0.99)", "stochastic(from=0, every=1)"; weight_average_of() reads it back, and throws
// invalid_argument for anything else.
TextValue to_text(const WeightAverage& average);
WeightAverage weight_average_of(const TextValue& text);

struct AveragedVariable {
  VariableRef variable{};
  VariableRef average{};
};

// Adds the average of a variable.
VariableRef average_variable(const VariableRef& of);
// The averages of a graph, by the names of the averages.
std::vector<AveragedVariable> weight_averages(Graph& graph);

}  // namespace troupe
