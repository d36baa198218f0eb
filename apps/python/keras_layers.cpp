// Layers of troupe.keras: those of graph/layers by kind and options, layers whose call() is Python, and networks of
// both. The package makes these of Keras's arguments (troupe/keras/layers).
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <utility>

#include "apps/python/bindings.hpp"
#include "apps/python/keras.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/layers/core.hpp>
#include <troupe/graph/layers/registry.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// An option of a layer; lists are not empty.
AttrValue layer_option(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<std::int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value).clone();
  const nb::object first = value[0];
  if (nb::isinstance<nb::str>(first)) return nb::cast<std::vector<std::string>>(value);
  if (nb::isinstance<nb::float_>(first)) return nb::cast<std::vector<double>>(value);
  return nb::cast<std::vector<std::int64_t>>(value);
}

Attributes layer_options(const nb::dict& given) {
  Attributes out;
  for (const auto& [name, value] : given) {
    try {
      out.set(nb::cast<std::string>(name), layer_option(value));
    } catch (const nb::cast_error&) {
      invalid_argument("option '{}' is of a type that no layer takes", nb::cast<std::string>(name));
    }
  }
  return out;
}

Constraint constraint_of(const nb::dict& given) {
  using Kind = Constraint::Kind;
  static const std::map<std::string, Kind> kinds = {{"max_norm", Kind::max_norm},
                                                    {"min_max_norm", Kind::min_max_norm},
                                                    {"unit_norm", Kind::unit_norm},
                                                    {"non_negative", Kind::non_negative}};
  Constraint out{.kind = kinds.at(nb::cast<std::string>(given["kind"]))};
  if (given.contains("low")) out.low = nb::cast<double>(given["low"]);
  if (given.contains("high")) out.high = nb::cast<double>(given["high"]);
  if (given.contains("rate")) out.rate = nb::cast<double>(given["rate"]);
  if (given.contains("axes")) out.axes = nb::cast<std::vector<std::int64_t>>(given["axes"]);
  return out;
}

// {"initializer": (kind, options), "l1": 0.1, "l2": 0.1, "constraint": {"kind": ...}}, of which all may be missing.
WeightOptions weight_options(const nb::dict& given) {
  WeightOptions out;
  if (given.contains("initializer")) {
    const auto [kind, options] = nb::cast<std::pair<std::string, nb::dict>>(given["initializer"]);
    out.initializer = Initializer(kind, layer_options(options));
  }
  if (given.contains("l1")) out.regularizer.l1 = nb::cast<double>(given["l1"]);
  if (given.contains("l2")) out.regularizer.l2 = nb::cast<double>(given["l2"]);
  if (given.contains("constraint")) out.constraint = constraint_of(nb::cast<nb::dict>(given["constraint"]));
  return out;
}

LayerPtr make_layer(const std::string& kind, const nb::dict& options, const nb::dict& weights,
                    const std::map<std::string, LayerPtr>& layers) {
  LayerConfig config{.kind = kind, .options = layer_options(options), .layers = layers};
  for (const auto& [name, given] : weights)
    config.weights.emplace(nb::cast<std::string>(name), weight_options(nb::cast<nb::dict>(given)));
  return standard_layers().make(config);
}

// The layer whose call() runs now, on this thread, and where.
thread_local LayerContext* current_context = nullptr;

class CallOfPython {
 public:
  explicit CallOfPython(LayerContext& context) : outer_(std::exchange(current_context, &context)) {}
  ~CallOfPython() { current_context = outer_; }
  CallOfPython(const CallOfPython&) = delete;
  CallOfPython& operator=(const CallOfPython&) = delete;

 private:
  LayerContext* const outer_;
};

LayerContext& context_of_call() {
  if (!current_context) fail(Code::failed_precondition, "no layer's call() runs now");
  return *current_context;
}

Outputs outputs_of_python(const nb::object& made) {
  Outputs out;
  for (const nb::handle y : made) out.push_back(nb::cast<PyTensor>(y).output());
  return out;
}

// A layer whose function is Python's: called while graphs are built, and in eager mode. It is of no kind that a reader
// knows.
class PythonLayer final : public Layer {
 public:
  // apply(outputs, training) returns a list.
  PythonLayer(nb::object apply, std::string kind, int outputs)
      : apply_(std::move(apply)), kind_(std::move(kind)), outputs_(outputs) {}
  ~PythonLayer() override {
    if (!Py_IsInitialized()) {
      (void)apply_.release();  // the interpreter has ended
      return;
    }
    const nb::gil_scoped_acquire held;
    apply_.reset();
  }
  std::string kind() const override { return kind_; }
  int outputs() const override { return outputs_; }
  Outputs apply_all(LayerContext& context, const Outputs& xs) const override {
    const nb::gil_scoped_acquire held;
    const CallOfPython call(context);
    nb::list inputs;
    for (const Output& x : xs) inputs.append(nb::cast(output_of_graph(x)));
    return outputs_of_python(apply_(inputs, context.training));
  }
  LayerConfig config() const override {
    fail(Code::failed_precondition,
         "layer '{}' is a function of Python, which a saved model cannot hold: export() writes a model that predicts",
         kind_);
  }

 private:
  nb::object apply_;
  std::string kind_;
  int outputs_;
};

Outputs apply_named(LayerContext& context, const LayerPtr& layer, const std::string& name, const Outputs& xs) {
  if (name.empty()) return layer->apply_all(context, xs);
  LayerContext inner = context;
  inner.layer += inner.layer.empty() ? name : "/" + name;
  const auto scope = context.graph.scope(name);
  try {
    return layer->apply_all(inner, xs);
  } catch (const Error& error) {
    throw error.within(fmt::format("layer '{}'", inner.layer));
  }
}

std::vector<PyTensor> call_inside(const LayerPtr& layer, const std::string& name, const std::vector<PyTensor>& xs) {
  Outputs inputs;
  for (const PyTensor& x : xs) inputs.push_back(x.output());
  std::vector<PyTensor> out;
  for (const Output& y : apply_named(context_of_call(), layer, name, inputs)) out.push_back(output_of_graph(y));
  return out;
}

PyTensor weight_inside(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                       bool trainable, const nb::dict& options) {
  WeightSpec spec{.dtype = dtype_named(dtype), .shape = Shape{std::span<const std::int64_t>(shape)}};
  spec.trainable = trainable;
  if (!shape.empty()) {
    spec.fan_out = static_cast<double>(shape.back());
    spec.fan_in = shape.size() > 1 ? static_cast<double>(spec.shape.num_elements()) / spec.fan_out : spec.fan_out;
  }
  return output_of_graph(context_of_call().weight(name, spec, weight_options(options)).read());
}

using Form = std::pair<std::string, Dims>;  // dtype, shape with the batch
using WeightForm =
    std::tuple<std::string, std::string, std::vector<std::int64_t>, bool>;  // name, dtype, shape, trained

// What a layer makes of inputs of these forms: those of its outputs, and its weights in order of creation.
std::pair<std::vector<Form>, std::vector<WeightForm>> forms_of(const LayerPtr& layer, const std::string& name,
                                                               const std::vector<Form>& inputs) {
  Graph graph;
  VariablePool variables;
  LayerContext context{.graph = graph, .variables = variables};
  Outputs xs;
  for (const auto& [dtype, shape] : inputs) xs.push_back(placeholder(graph, dtype_named(dtype), shape_of_dims(shape)));
  const Outputs ys = apply_named(context, layer, name, xs);
  std::pair<std::vector<Form>, std::vector<WeightForm>> out;
  for (const Output& y : ys) out.first.emplace_back(troupe::name(y.dtype()), dims_of_shape(y.shape()));
  std::set<std::string> trained;
  for (const VariableRef& v : variables.trainable()) trained.insert(v.name);
  for (const VariableRef& v : variables.all()) {
    const auto dims = v.shape.dims();
    out.second.emplace_back(v.name, troupe::name(v.dtype), std::vector<std::int64_t>(dims.begin(), dims.end()),
                            trained.contains(v.name));
  }
  return out;
}

std::vector<Symbol> call_symbols(const LayerPtr& layer, const std::vector<Symbol>& xs) { return layer.call(xs); }

Network network_of(const std::vector<Symbol>& inputs, const std::vector<std::pair<std::string, Symbol>>& results,
                   const std::string& kind) {
  const Network network(inputs, results);
  return kind == "network" ? network : Network(network.plan(), kind);
}

}  // namespace

PyTensor output_of_graph(const Output& output) {
  if (output.eager) return {nullptr, output};
  return {std::shared_ptr<Graph>(std::shared_ptr<Graph>(), output.graph), output};
}

void bind_keras_layers(nb::module_& m) {
  nb::class_<Symbol>(m, "Symbol");
  nb::class_<LayerPtr>(m, "Layer")
      .def_prop_ro("kind", [](const LayerPtr& layer) { return layer->kind(); })
      .def_prop_ro("outputs", [](const LayerPtr& layer) { return layer->outputs(); })
      .def("named", &LayerPtr::named, "name"_a)
      .def("frozen", [](const LayerPtr& layer) { return layers::frozen(layer); })
      .def("call", &call_symbols, "inputs"_a)
      .def("forms", &forms_of, "name"_a, "inputs"_a)
      .def("call_inside", &call_inside, "name"_a, "inputs"_a);
  nb::class_<Network>(m, "Network")
      .def("layer", [](const Network& network) { return network.layer(); })
      .def("inputs",
           [](const Network& network) {
             std::vector<std::string> names;
             for (const InputSpec& input : network.plan().inputs) names.push_back(input.name);
             return names;
           })
      .def("results", [](const Network& network) {
        std::vector<std::string> names;
        for (const auto& result : network.plan().results) names.push_back(result.name);
        return names;
      });
  m.def("layer_kinds", [] { return standard_layers().kinds(); });
  m.def("layer", &make_layer, "kind"_a, "options"_a, "weights"_a, "layers"_a);
  m.def(
      "python_layer",
      [](nb::object apply, const std::string& kind, int outputs) {
        return LayerPtr(std::make_shared<PythonLayer>(std::move(apply), kind, outputs));
      },
      "apply"_a, "kind"_a, "outputs"_a);
  m.def(
      "input",
      [](const std::string& name, const Dims& shape, const std::string& dtype) {
        return input(name, shape_of_dims(shape), dtype_named(dtype));
      },
      "name"_a, "shape"_a, "dtype"_a);
  m.def("network", &network_of, "inputs"_a, "results"_a, "kind"_a);
  m.def("in_call", [] { return current_context != nullptr; });
  m.def("in_training", [] { return current_context && current_context->training; });
  m.def("weight_inside", &weight_inside, "name"_a, "dtype"_a, "shape"_a, "trainable"_a, "options"_a);
  m.def("add_loss", [](const PyTensor& loss) { context_of_call().add_loss(loss.output()); });
}

void bind_keras(nb::module_& m) {
  nb::module_ keras = m.def_submodule("keras");
  bind_keras_layers(keras);
  bind_keras_measures(keras);
  bind_keras_data(keras);
  bind_keras_eager(keras);
  bind_keras_model(keras);
  bind_keras_preprocessing(keras);
}

}  // namespace troupe::python
