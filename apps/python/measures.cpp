// Losses and metrics in Python, by name and with options by name.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/bindings.hpp"
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/training/measure_text.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// A value of Python as an option.
TextValue option_value(const std::string& name, nb::handle value) {
  if (PyBool_Check(value.ptr())) return TextValue(value.ptr() == Py_True);
  if (nb::isinstance<nb::str>(value)) return TextValue(nb::cast<std::string>(value));
  if (PySequence_Check(value.ptr())) {  // also an array, which says that it is a number
    TextValue::List out;
    for (nb::handle item : value) out.push_back(option_value(name, item));
    return TextValue(std::move(out));
  }
  if (PyIndex_Check(value.ptr())) return TextValue(nb::cast<std::int64_t>(value));
  if (PyNumber_Check(value.ptr())) return TextValue(nb::cast<double>(nb::float_(value)));
  invalid_argument("the option '{}' is of another type: use bool, int, float, str or a list of these", name);
}

// A loss or a metric with its options; None is an option that is left out.
TextCall call_of(const std::string& kind, const nb::dict& options) {
  TextCall out{kind, {}};
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    if (!value.is_none()) out.add(name, option_value(name, value));
  }
  return out;
}

PyTensor loss_of_kind(const std::string& kind, const PyTensor& outputs, const PyTensor& targets,
                      const nb::dict& options) {
  const LossFunction loss = loss_function(kind, options);
  return {outputs.graph, loss(outputs.output(), targets.output())};
}

PyTensor metric_sums(const Metric& metric, const PyTensor& outputs, const std::optional<PyTensor>& targets,
                     const std::optional<PyTensor>& weights) {
  MetricInputs in{.outputs = outputs.output()};
  if (targets) in.targets = targets->output();
  if (weights) in.weights = weights->output();
  return {outputs.graph, metric.sums(in)};
}

}  // namespace

LossFunction loss_function(const std::string& kind, const nb::dict& options) { return loss_of(call_of(kind, options)); }

void bind_measures(nb::module_& m) {
  m.def("loss_names", &loss_names);
  m.def("metric_names", &metric_names);
  m.def("loss", &loss_of_kind, "kind"_a, "outputs"_a, "targets"_a, "options"_a);
  m.def(
      "weighted_mean",
      [](const PyTensor& each, const PyTensor& weights) {
        return PyTensor{each.graph, losses::weighted_mean(each.output(), weights.output())};
      },
      "each"_a, "weights"_a);
  nb::class_<Metric>(m, "Metric")
      .def_ro("name", &Metric::name)
      .def("sums", &metric_sums, "outputs"_a, "targets"_a.none(), "weights"_a.none())
      .def("result", [](const Metric& metric, const Tensor& sums) { return metric.result(sums); });
  m.def(
      "metric", [](const std::string& kind, const nb::dict& options) { return metric_of(call_of(kind, options)); },
      "kind"_a, "options"_a);
}

}  // namespace troupe::python
