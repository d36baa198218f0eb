// A program: what one slot of a training step computes of its batch. All training modes run any program.
//
//   const Program line = [](ProgramContext& c) -> ProgramOutputs {
//     const VariableRef slope = c.variable("slope", {.shape = {}}, initializers::zeros());
//     const Output y = c["x"] * slope.read();
//     return {.objectives = {{.loss = mean(squared_difference(y, c["y"])), .optimizer = optimizers::SGD{}}},
//             .predictions = {{"y", y}}};
//   };
//
// Several objectives (a GAN, actor and critic) are phases of a step: each has its own pull, push and commit, and a
// phase sees the updates of those before it. Each trains other variables.
//
// The function is called once for each slot and micro-batch, and once for evaluation, with the same pool of variables.
// It must build the same nodes each time; its only state are variables of the pool.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/data/batch_schema.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/messages/named_sums.hpp>

namespace troupe {

// Computes a figure, an f64 scalar or matrix, of its sums over all batches.
using FigureResult = std::function<Tensor(const Tensor& sums)>;

// sums[0] / sums[1], 0 if that is 0: the mean of a value, given the sums of values and of weights.
Tensor mean_of_sums(const Tensor& sums);

// A figure about the batch: sums over its examples, merged by addition.
struct Figure {
  std::string name{};
  Output sums{};                       // of known shape; added up in f64
  FigureResult result = mean_of_sums;  // takes an f64 tensor of that shape
  std::size_t objective = 0;           // computed in the phase of this objective, before its update
};

struct Objective {
  std::string name = "loss";            // of the figure with its mean
  Output loss{};                        // floating scalar: the mean over the examples
  std::vector<std::string> train{"*"};  // names of the variables to train; patterns with * and ?
  Optimizer optimizer = optimizers::Adam{};
};

struct ProgramOutputs {
  std::vector<Objective> objectives{};
  std::vector<Figure> figures{};
  std::map<std::string, Output> predictions{};  // [n, ...]
};

class ProgramContext {
 public:
  Graph& graph;
  const BatchSchema& schema;
  const std::map<std::string, Output, std::less<>>& batch;  // by component: [n, example...]
  VariablePool& variables;
  bool training = false;
  std::vector<RunningAverage>* averages = nullptr;  // not null in training

  // Throws not_found, naming the components there are.
  Output operator[](std::string_view component) const;
  // The variable of this name, like "generator/scale"; the first call makes it.
  VariableRef variable(const std::string& name, const WeightSpec& spec, const Initializer& initializer);
  // For the application of layers.
  LayerContext layers() const {
    return {.graph = graph, .training = training, .variables = variables, .averages = averages};
  }
};

using Program = std::function<ProgramOutputs(ProgramContext&)>;

// Where the sums of figures lie in one flat f64 tensor.
class FigureLayout {
 public:
  void add(std::string name, Shape shape) { figures_.emplace_back(std::move(name), std::move(shape)); }
  // Throws internal if the tensor has another number of elements.
  NamedSums unpack(const Tensor& sums) const;
  const std::vector<std::pair<std::string, Shape>>& figures() const { return figures_; }

 private:
  std::vector<std::pair<std::string, Shape>> figures_;
};

}  // namespace troupe
