// Losses and metrics of troupe.keras: those of graph/layers and graph/metrics for targets as Keras takes them, of any
// dtype, with or without a last dimension of 1; and functions of Python.
#include <nanobind/stl/string.h>

#include "apps/python/keras.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/training/network_program.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Targets of the rank of the outputs, if they differ by a dimension of 1, and of their dtype.
Output like_outputs(Output targets, Output outputs) {
  const int rank = outputs.shape().rank();
  if (targets.shape().rank() + 1 == rank && outputs.shape()[-1] == 1)
    targets = expand_dims(targets, {-1});
  else if (targets.shape().rank() == rank + 1 && targets.shape()[-1] == 1)
    targets = squeeze(targets, {-1});
  return cast(targets, outputs.dtype());
}

// Classes [n,...] of outputs [n,...,c].
Output classes_for(Output targets, Output outputs) {
  if (targets.shape().rank() == outputs.shape().rank() && targets.shape()[-1] == 1) targets = squeeze(targets, {-1});
  if (targets.dtype() == DType::i32) return targets;
  return cast(targets, DType::i64);
}

bool takes_classes(const std::string& loss) {
  return loss == "sparse_softmax_cross_entropy" || loss == "focal" || loss == "generalized_cross_entropy" ||
         loss == "circle";
}

// Targets [n], [n,1] or [n,...] without the dimension of classes, or with one of size 1, which the outputs have.
bool are_classes(Output targets, Output outputs) {
  return targets.shape().rank() < outputs.shape().rank() || targets.shape()[-1] != outputs.shape()[-1];
}

LossFunction loss_of_kind(const std::string& kind, const nb::dict& options) {
  const bool classes = takes_classes(kind), minus_one = kind == "cosine_distance";
  const LossFunction each = loss_function(kind, options);
  return LossFunction(each.name(), [=](Output outputs, Output targets) {
    const Output value = each(outputs, classes ? classes_for(targets, outputs) : like_outputs(targets, outputs));
    return minus_one ? value - 1.0 : value;  // Keras's cosine is that of the angle, without the 1
  });
}

// One number for each example of what a function of Python returned: [n,...], or a scalar for all.
Output per_example(Output value, Output outputs) {
  if (value.shape().rank() == 0) {
    const Output examples = expand_dims(squeeze(slice(shape_of(outputs), {0}, {1}), {0}), {0});
    return fill(examples, value);
  }
  Integers axes;
  for (int axis = 1; axis < value.shape().rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? value : mean(value, axes);
}

Output value_of_python(const nb::object& function, Output outputs, Output targets) {
  const nb::gil_scoped_acquire held;
  const nb::object made = function(output_of_graph(targets), output_of_graph(outputs));
  return nb::cast<PyTensor>(made).output();
}

// Holds a function of Python, and lets it go with the interpreter's lock.
std::shared_ptr<nb::object> shared_function(nb::object function) {
  return {new nb::object(std::move(function)), [](nb::object* held) {
            if (!Py_IsInitialized()) {
              (void)held->release();
              return;
            }
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

LossFunction loss_of_python(const std::string& name, nb::object function) {
  const auto held = shared_function(std::move(function));
  return LossFunction(name, [held](Output outputs, Output targets) {
    return per_example(value_of_python(*held, outputs, like_outputs(targets, outputs)), outputs);
  });
}

Metric metric_of_python(const std::string& name, nb::object function) {
  const auto held = shared_function(std::move(function));
  return metrics::mean_of(name, [held](const MetricInputs& in) {
    return per_example(value_of_python(*held, in.outputs, like_outputs(in.targets, in.outputs)), in.outputs);
  });
}

MetricInputs with_targets(const MetricInputs& in, Output targets) {
  return {.outputs = in.outputs, .targets = targets, .weights = in.weights};
}

// Whether integers [n,...] are the classes of rows [n,...,c].
bool are_classes_of_rows(Output targets, Output outputs) {
  return is_integer(targets.dtype()) && targets.shape().rank() + 1 == outputs.shape().rank() &&
         outputs.shape()[-1] != 1;
}

// `classes`: its targets are classes, also where outputs are no rows.
Metric with_keras_targets(Metric metric, bool classes) {
  metric.sums = [sums = std::move(metric.sums), classes](const MetricInputs& in) {
    if (!in.targets.valid()) return sums(in);
    const bool as_classes = classes || are_classes_of_rows(in.targets, in.outputs);
    return sums(
        with_targets(in, as_classes ? classes_for(in.targets, in.outputs) : like_outputs(in.targets, in.outputs)));
  };
  return metric;
}

// Keras's "accuracy": of outputs [n,...,1] the binary one; else of classes or of rows, whichever the targets are.
Metric accuracy_by_shape(const std::string& name) {
  const Metric binary = metrics::binary_accuracy({.threshold = 0.5, .from_logits = false, .name = name});
  Metric out = metrics::accuracy(name);
  out.sums = [binary, rows = out.sums](const MetricInputs& in) {
    if (in.outputs.shape()[-1] == 1) return binary.sums(with_targets(in, like_outputs(in.targets, in.outputs)));
    return rows(with_targets(in, are_classes(in.targets, in.outputs) ? classes_for(in.targets, in.outputs)
                                                                     : cast(in.targets, in.outputs.dtype())));
  };
  return out;
}

}  // namespace

void bind_keras_measures(nb::module_& m) {
  nb::class_<LossFunction>(m, "LossFunction").def_prop_ro("name", &LossFunction::name);
  m.def("loss_of_kind", &loss_of_kind, "kind"_a, "options"_a);
  m.def("loss_of_python", &loss_of_python, "name"_a, "function"_a);
  m.def("metric_of_python", &metric_of_python, "name"_a, "function"_a);
  m.def("with_keras_targets", &with_keras_targets, "metric"_a, "classes"_a);
  m.def("accuracy", &accuracy_by_shape, "name"_a);
}

}  // namespace troupe::python
