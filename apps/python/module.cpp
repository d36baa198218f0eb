// The Python module: tensors, graphs, ops by name, sessions, ONNX models. The package `troupe` (troupe/__init__.py)
// makes its calls read like Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/bindings.hpp"
#include "apps/python/device_libraries.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/indexed_slices.hpp"
#include "apps/python/operands.hpp"
#include "apps/python/session.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/cluster/op_libraries.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/op_signature.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Of a library name, version, SHA-256, path and ops: (name, names of inputs, whether they are lists, signature).
nb::tuple load_library(const std::string& path) {
  const LoadedOps* loaded = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    loaded = &load_op_library(path);
  }
  nb::list ops;
  for (const auto& [name, op] : loaded->ops) {
    nb::list inputs, lists;
    for (const ArgDef& input : op.inputs) {
      inputs.append(input.name);
      lists.append(!input.count_attr.empty() || !input.types_attr.empty());
    }
    ops.append(nb::make_tuple(name, inputs, lists, signature_of(op)));
  }
  const OpLibraryId& id = loaded->library;
  return nb::make_tuple(id.name, id.version, id.sha256, loaded->path, ops);
}

// A Python value as the type that the op declares.
AttrValue attribute(AttrType type, nb::handle value) {
  switch (type) {
    case AttrType::integer:
      return nb::cast<std::int64_t>(value);
    case AttrType::real:
      return nb::cast<double>(value);
    case AttrType::boolean:
      return nb::cast<bool>(value);
    case AttrType::string:
      return nb::cast<std::string>(value);
    case AttrType::dtype:
      return dtype_from(value);
    case AttrType::shape:
      return shape_of_dims(nb::cast<Dims>(value));
    case AttrType::tensor:
      return data_of(value).clone();  // the graph outlives the array
    case AttrType::function:
      return FunctionName{nb::cast<std::string>(value)};
    case AttrType::integers:
      return nb::cast<std::vector<std::int64_t>>(value);
    case AttrType::reals:
      return nb::cast<std::vector<double>>(value);
    case AttrType::strings:
      return nb::cast<std::vector<std::string>>(value);
    case AttrType::dtypes: {
      std::vector<DType> out;
      for (const nb::handle item : nb::cast<nb::list>(nb::list(nb::borrow(value)))) out.push_back(dtype_from(item));
      return out;
    }
  }
  invalid_argument("an attribute of this type cannot be given");
}

Outputs unwrap(const std::vector<PyTensor>& outputs) {
  Outputs out;
  for (const PyTensor& o : outputs) out.push_back(o.output());
  return out;
}

// Runs the op in eager mode, or adds a node.
nb::object named_op(const CallGraph& of, const std::string& op, const std::vector<nb::object>& inputs,
                    const nb::dict& attributes, const std::string& node_name) {
  const OpDef& def = of.graph->ops().get(op);
  const std::vector<nb::handle> handles(inputs.begin(), inputs.end());
  NodeSpec spec{.op = op, .name = node_name, .inputs = operands(of, handles)};
  for (const auto& [key, value] : attributes) {
    const auto attr_name = nb::cast<std::string>(key);
    const AttrDef* attr = def.find_attr(attr_name);
    if (!attr) invalid_argument("op {} has no attribute '{}'", op, attr_name);
    try {
      spec.attributes.set(attr_name, attribute(attr->type, value));
    } catch (const nb::cast_error&) {
      invalid_argument("op {}: attribute '{}' must be of type {}", op, attr_name, name(attr->type));
    }
  }
  const Outputs outputs = call_released(of, spec.inputs, [&](const Outputs&) {
    return of.is_eager() ? of.graph->apply(spec) : outputs_of(*of.graph, of.graph->add(spec));
  });
  return outputs.size() == 1 ? to_python(of, outputs[0]) : nb::object(nb::list(to_python(of, outputs)));
}

struct PyModel {
  PyGraph graph;
  std::vector<std::pair<std::string, PyTensor>> inputs, outputs;
  // Labels of the columns of an output, by its name.
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> integer_classes;
  std::vector<std::pair<std::string, std::vector<std::string>>> string_classes;
  std::int64_t opset = 0;
  std::string producer;
};

PyModel import_model(const std::string& path, const std::string& weights) {
  using Weights = OnnxImportOptions::Weights;
  OnnxImportOptions options;
  if (weights == "constants")
    options.weights = Weights::constants;
  else if (weights == "trainable")
    options.weights = Weights::trainable;
  else if (weights != "variables")
    invalid_argument("weights are 'constants', 'variables' or 'trainable', not '{}'", weights);
  OnnxModel model = import_onnx(path, options);
  PyModel out{.graph = {std::move(model.graph)},
              .inputs = {},
              .outputs = {},
              .integer_classes = {},
              .string_classes = {},
              .opset = model.opset,
              .producer = std::move(model.producer)};
  for (const OnnxValue& v : model.inputs) out.inputs.emplace_back(v.name, PyTensor{out.graph.graph, v.output});
  for (const OnnxValue& v : model.outputs) {
    out.outputs.emplace_back(v.name, PyTensor{out.graph.graph, v.output});
    if (!v.type.classes.valid()) continue;
    const auto add = [&]<class T>(auto& all) {
      const auto labels = v.type.classes.values<T>();
      all.emplace_back(v.name, std::vector<T>(labels.begin(), labels.end()));
    };
    if (v.type.classes.dtype() == DType::string)
      add.template operator()<std::string>(out.string_classes);
    else
      add.template operator()<std::int64_t>(out.integer_classes);
  }
  return out;
}

using NamedOutputs = std::vector<std::pair<std::string, PyTensor>>;

// `session`: whose values the variables have; none: the initial ones.
void export_model(const std::string& path, const PyGraph& graph, const NamedOutputs& inputs,
                  const NamedOutputs& outputs, std::optional<PySession*> session) {
  OnnxExport what;
  for (const auto& [name, o] : inputs) what.inputs.push_back({name, o.output(), {}});
  for (const auto& [name, o] : outputs) what.outputs.push_back({name, o.output(), {}});
  const std::vector<VariableInfo> all = variables(*graph.graph);
  if (session) {
    what.variables = (*session)->values(all);
  } else if (!all.empty()) {
    const PyGraph copy{graph.graph->clone()};  // to which the initializer is added
    PySession fresh(copy, 1);
    fresh.run({}, {}, {initializer(*copy.graph)});
    what.variables = fresh.values(all);
  }
  const nb::gil_scoped_release released;
  export_onnx(path, *graph.graph, what);
}

std::vector<std::optional<PyTensor>> gradients_of(const std::vector<PyTensor>& ys, const std::vector<PyTensor>& xs) {
  const Outputs wanted = unwrap(xs);
  std::vector<std::optional<PyTensor>> out;
  const std::vector<Gradient> found = gradients(unwrap(ys), wanted);
  for (std::size_t i = 0; i < found.size(); ++i)
    out.push_back(found[i] ? std::optional(PyTensor{xs[i].graph, dense(found[i], wanted[i])}) : std::nullopt);
  return out;
}

void bind_graph(nb::module_& m) {
  nb::class_<PyGraph>(m, "Graph")
      .def(nb::init<>())
      .def(
          "placeholder",
          [](PyGraph& g, nb::handle dtype, const Dims& shape, const std::string& node_name) {
            return to_python({g.graph, placeholder(*g.graph, dtype_from(dtype), shape_of_dims(shape), node_name)});
          },
          "dtype"_a, "shape"_a.none(), "name"_a = "")
      .def(
          "constant",
          [](PyGraph& g, nb::handle value, nb::handle dtype, const std::string& node_name) {
            std::optional<DType> wanted;
            if (!dtype.is_none()) wanted = dtype_from(dtype);
            return to_python({g.graph, constant(*g.graph, data_of(value, wanted).clone(), node_name)});
          },
          "value"_a, "dtype"_a.none() = nb::none(), "name"_a = "")
      .def(
          "op",
          [](PyGraph& g, const std::string& op, const std::vector<nb::object>& inputs, const nb::dict& attributes,
             const std::string& node_name) {
            return named_op({g.graph.get(), g.graph}, op, inputs, attributes, node_name);
          },
          "op"_a, "inputs"_a, "attributes"_a, "name"_a = "")
      .def("output",
           [](PyGraph& g, const std::string& text) {
             return to_python({g.graph, g.graph->output(text)});
           })
      .def("initializer",
           [](PyGraph& g) {
             return to_python({g.graph, initializer(*g.graph)});
           })
      .def("__len__", [](const PyGraph& g) { return g.graph->size(); })
      .def("__str__", [](const PyGraph& g) { return g.graph->dump(); });
  m.def(
      "op",
      [](const std::string& op, const std::vector<nb::object>& inputs, const nb::dict& attributes,
         const std::string& node_name) {
        const std::vector<nb::handle> handles(inputs.begin(), inputs.end());
        return named_op(CallGraph::of(handles), op, inputs, attributes, node_name);
      },
      "op"_a, "inputs"_a, "attributes"_a, "name"_a = "");
  m.def("gradients", &gradients_of, "ys"_a, "xs"_a);
  m.def("load_op_library", &load_library, "path"_a);
  m.def("ops", [] { return standard_ops().names(); });
  m.def(
      "signature", [](const std::string& op) { return signature_of(standard_ops().get(op)); }, "op"_a);
}

void bind_running(nb::module_& m) {
  nb::class_<PyModel>(m, "Model")
      .def_ro("graph", &PyModel::graph)
      .def_ro("inputs", &PyModel::inputs)
      .def_ro("outputs", &PyModel::outputs)
      .def_ro("integer_classes", &PyModel::integer_classes)
      .def_ro("string_classes", &PyModel::string_classes)
      .def_ro("opset", &PyModel::opset)
      .def_ro("producer", &PyModel::producer);
  m.def("import_onnx", &import_model, "path"_a, "weights"_a = "constants", nb::call_guard<nb::gil_scoped_release>());
  m.def("export_onnx", &export_model, "path"_a, "graph"_a, "inputs"_a, "outputs"_a, "session"_a.none() = nb::none());
}

}  // namespace
}  // namespace troupe::python

NB_MODULE(_troupe, m) {
  namespace nb = nanobind;
  using namespace troupe::python;
  nb::set_leak_warnings(false);  // what Python's globals hold is let go of by the end of the process
  bind_errors(m);
  bind_dtypes(m);
  bind_tensors(m);
  bind_eager_mode(m);
  bind_device_libraries(m);
  bind_sessions(m);
  bind_indexed_slices(m);
  bind_tapes(m);
  bind_math_functions(m);
  bind_array_functions(m);
  bind_nn_functions(m);
  bind_image_functions(m);
  bind_quantized_functions(m);
  bind_sequence_functions(m);
  bind_text_functions(m);
  bind_linalg_functions(m);
  bind_fft_functions(m);
  bind_sparse_functions(m);
  bind_control(m);
  bind_optimizers(m);
  bind_graph(m);
  bind_running(m);
  bind_cluster(m);
  bind_data(m);
  bind_files(m);
  bind_functions(m);
  bind_keras(m);
  bind_measures(m);
  bind_onnx(m);
  bind_resources(m);
  bind_saved_model(m);
}
