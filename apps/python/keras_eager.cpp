// Layers and losses of troupe.keras in eager mode: on values, with weights that are variables.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/eager_mode.hpp"
#include "apps/python/keras.hpp"
#include "apps/python/operands.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/graph/layers/network.hpp>
#include <troupe/graph/training/network_program.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Moves running averages towards the values of this call.
void follow(const std::vector<RunningAverage>& averages) {
  const OpRecorder::Pause pause;
  for (const RunningAverage& average : averages) {
    const Output step = (average.value - average.variable.read()) * average.part;
    average.variable.assign_add(step);
  }
}

// Applies a layer whose variables are these, by name.
std::vector<PyTensor> apply_eagerly(const LayerPtr& layer, const std::vector<PyTensor>& inputs,
                                    const std::vector<std::pair<std::string, PyVariable>>& weights, bool training) {
  VariablePool variables;
  for (const auto& [name, weight] : weights) variables.add(name, weight.variable, weight.trainable);
  Outputs xs;
  for (const PyTensor& x : inputs) xs.push_back(x.output());
  std::vector<RunningAverage> averages;
  LayerContext context{.graph = eager_graph(), .training = training, .variables = variables, .averages = &averages};
  Outputs ys;
  {
    const ReleasedForOp released;
    ys = layer->apply_all(context, xs);
    follow(averages);
  }
  std::vector<PyTensor> out;
  for (Output& y : ys) out.push_back({nullptr, std::move(y)});
  return out;
}

// The mean loss of examples, or of weighted ones.
nb::object loss_value(const LossFunction& loss, nb::handle targets, nb::handle outputs, nb::handle weights) {
  const nb::handle all[] = {targets, outputs, weights};
  const CallGraph of = CallGraph::of(all);
  const Output each = loss(operand(of, outputs), operand(of, targets));
  return to_python(of,
                   weights.is_none() ? mean(each) : losses::weighted_mean(each, operand(of, weights, each.dtype())));
}

}  // namespace

void bind_keras_eager(nb::module_& m) {
  m.def("apply_eagerly", &apply_eagerly, "layer"_a, "inputs"_a, "weights"_a, "training"_a);
  m.def("loss_value", &loss_value, "loss"_a, "targets"_a, "outputs"_a, "weights"_a.none());
  m.def(
      "value_of", [](const PyVariable& v) { return v.variable.read().value(); }, "variable"_a);
  m.def(
      "assign_value",
      [](const PyVariable& v, const Tensor& value) { v.variable.assign(constant(eager_graph(), value)); }, "variable"_a,
      "value"_a);
}

}  // namespace troupe::python
