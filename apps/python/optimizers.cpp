#include "apps/python/optimizers.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/callbacks.hpp"
#include "apps/python/indexed_slices.hpp"
#include <troupe/graph/builder/math.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

const VariableRef& variable_of(nb::handle value) {
  if (!is_variable(value)) invalid_argument("{} is not a Variable", nb::repr(value).c_str());
  return nb::cast<const PyVariable&>(value).variable;
}

Gradient gradient_of(nb::handle given, DType dtype) {
  if (!is_indexed_slices(given)) return {.dense = operand({&eager_graph()}, given, dtype)};
  Gradient out = indexed_slices_of(given).gradient();
  if (out.values.dtype() != dtype) out.values = cast(out.values, dtype);
  return out;
}

void apply(PyOptimizer& optimizer, const std::vector<nb::object>& gradients, const std::vector<nb::object>& variables) {
  std::vector<GradientAndVariable> all;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const VariableRef& variable = variable_of(variables[i]);
    all.push_back({.gradient = gradient_of(gradients.at(i), variable.dtype), .variable = variable, .moved_by = {}});
  }
  const ReleasedForOp released;
  optimizer.eager.apply(all);
}

nb::object minimize_loss(PyOptimizer& optimizer, nb::object loss, const std::vector<nb::object>& variables) {
  std::vector<VariableRef> all;
  for (const nb::object& v : variables) all.push_back(variable_of(v));
  Graph& graph = eager_graph();
  const PyFunction fn(std::move(loss));
  const auto value = [&] {
    const Outputs found = fn.outputs(nullptr, graph, {});
    if (found.size() != 1) invalid_argument("minimize: the loss function returns {} values, not one", found.size());
    return found[0];
  };
  const ReleasedForOp released;
  const Output found = optimizer.eager.minimize(value, all);
  const nb::gil_scoped_acquire held;
  return to_python({nullptr, found});
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<PyOptimizer>(m, "Optimizer")
      .def(nb::init<const std::string&>(), "options"_a)
      .def(
          "change",
          [](PyOptimizer& o, const std::string& options) {
            const Optimizer changed = parse_optimizer(options);
            o.eager.change(changed);
            o.options = changed;
          },
          "options"_a)
      .def(
          "learning_rate_at", [](const PyOptimizer& o, std::int64_t t) { return learning_rate(o.options).rate(t); },
          "updates"_a)
      .def("apply", &apply, "gradients"_a, "variables"_a)
      .def("minimize", &minimize_loss, "loss"_a, "variables"_a)
      .def("variables",
           [](const PyOptimizer& o) {
             nb::list out;
             for (const VariableRef& v : o.eager.variables()) out.append(nb::cast(PyVariable{v, false}));
             return out;
           })
      .def("__str__", [](const PyOptimizer& o) { return to_string(o.options); });
}

}  // namespace troupe::python
