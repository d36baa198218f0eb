// The program of a network: what its outputs learn from the components of a batch, and how well.
//
//   const NetworkTraining training{
//       .network = network,
//       .outputs = {{.output = "class", .loss = Loss::sparse_softmax_cross_entropy, .metrics = {metrics::accuracy()}},
//                   {.output = "risk", .loss = Loss::mean_squared_error, .weight = 0.5, .target = "damage"}}};
//   const Program program = network_program(training);
//
// The objective "loss" is the weighted sum of the outputs' losses and of what layers add (regularizers). With several
// losses each has a figure of its own, "class_loss", and metrics are named "class_accuracy".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <troupe/graph/layers/losses.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/training/program.hpp>

namespace troupe {

// A loss of outputs [n,...] and targets: floating [n], one of each example.
class LossFunction {
 public:
  using Function = std::function<Output(Output outputs, Output targets)>;

  LossFunction() = default;                           // none: the output learns nothing
  LossFunction(Loss kind, LossOptions options = {});  // NOLINT(google-explicit-constructor)
  LossFunction(std::string name, Function each) : name_(std::move(name)), each_(std::move(each)) {}

  explicit operator bool() const { return each_ != nullptr; }
  const std::string& name() const { return name_; }
  // Throws invalid_argument unless the result is floating [n].
  Output operator()(Output outputs, Output targets) const;

 private:
  std::string name_;
  Function each_;
};

struct OutputTraining {
  std::string output{};  // of the network; "": its only one
  LossFunction loss{};
  double weight = 1;  // of the loss
  // A component of the batch. "": the one named like the output; for a network with one loss, else the first that is
  // not an input, a target or a weight.
  std::string target{};
  std::string sample_weights{};         // a component [n] that scales the losses of examples; "": none
  std::vector<double> class_weights{};  // one per class, of targets that are classes; empty: none
  std::vector<Metric> metrics{};
  std::vector<Metric> weighted_metrics{};  // the same, with the weights of samples and classes
};

struct NetworkTraining {
  Network network{};
  std::vector<OutputTraining> outputs{};
  std::vector<std::string> train{"*"};  // names of the variables to train; patterns with * and ?
  Optimizer optimizer = optimizers::Adam{};
};

// The component that each input of the network takes, in its order: the one of its name; for a network with one input,
// else the first that is not named as a target or weight. Throws not_found for an input without one, and
// invalid_argument for a component of another dtype or shape.
std::vector<std::string> input_components(const Network& network, const std::vector<OutputTraining>& outputs,
                                          const BatchSchema& schema);

// Predictions are the network's results by name. The program throws not_found for components and outputs that do not
// exist, and invalid_argument without a loss or for weights that do not fit.
Program network_program(NetworkTraining training);
// Predictions alone, of batches with the inputs of the network; without targets.
Program network_predictions(Network network);

}  // namespace troupe
