// The Python module: tensors, graphs, ops by name, sessions, ONNX models. The package `troupe` (troupe/__init__.py)
// makes its calls read like Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/bindings.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/task.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/op_signature.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

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
      return dtype_named(nb::cast<std::string>(value));
    case AttrType::shape:
      return shape_of_dims(nb::cast<Dims>(value));
    case AttrType::tensor:
      return nb::cast<Tensor>(value).clone();  // the graph outlives the array
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
      for (const std::string& text : nb::cast<std::vector<std::string>>(value)) out.push_back(dtype_named(text));
      return out;
    }
  }
  invalid_argument("an attribute of this type cannot be given");
}

std::vector<PyOutput> wrap(const PyGraph& graph, const Outputs& outputs) {
  std::vector<PyOutput> out;
  for (const Output& o : outputs) out.push_back({graph.graph, o});
  return out;
}
Outputs unwrap(const std::vector<PyOutput>& outputs) {
  Outputs out;
  for (const PyOutput& o : outputs) out.push_back(o.output);
  return out;
}

std::vector<PyOutput> add_named_op(PyGraph& graph, const std::string& op, const std::vector<PyOutput>& inputs,
                                   const nb::dict& attributes, const std::string& node_name) {
  const OpDef& def = graph.graph->ops().get(op);
  NodeSpec spec{.op = op, .name = node_name, .inputs = unwrap(inputs)};
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
  return wrap(graph, outputs_of(*graph.graph, graph.graph->add(std::move(spec))));
}

// Ends without the interpreter's lock: threads of the session may need it to let go of arrays.
class PySession {
 public:
  // `task`: that it runs on, with its cluster; none: one of its own.
  PySession(const PyGraph& graph, int threads, bool inference = false, const std::optional<PyTask>& task = {}) {
    check_not_forked();
    if (task) (void)task->get();
    const nb::gil_scoped_release released;
    task_ = task ? task->task : std::make_shared<Task>(TaskOptions{.threads = threads});
    SessionOptions options;
    if (inference) options.inference = InferencePasses{};
    session_ = std::make_unique<Session>(*task_, *graph.graph, std::move(options));
    graph_ = graph.graph;
  }
  PySession(PySession&&) = delete;
  ~PySession() { close(); }

  // The values of these variables of the graph.
  std::map<std::string, Tensor> values(const std::vector<VariableInfo>& wanted) {
    std::vector<PyOutput> reads;
    for (const VariableInfo& v : wanted) reads.push_back({graph_, find_variable(*graph_, v.name).read()});
    const std::vector<Tensor> found = run({}, reads, {});
    std::map<std::string, Tensor> out;
    for (std::size_t i = 0; i < wanted.size(); ++i) out[wanted[i].name] = found[i];
    return out;
  }

  void close() {
    const nb::gil_scoped_release released;
    if (is_forked()) {
      (void)session_.release();
      (void)new std::shared_ptr<Task>(std::move(task_));
    }
    session_.reset();
    task_.reset();
  }

  std::vector<Tensor> run(const std::vector<std::pair<PyOutput, Tensor>>& feeds, const std::vector<PyOutput>& fetches,
                          const std::vector<PyOutput>& targets) {
    check_not_forked();
    if (!session_) fail(Code::failed_precondition, "the session is closed");
    Feeds given;
    for (const auto& [output, tensor] : feeds) given.emplace_back(output.output, tensor);
    const Outputs wanted = unwrap(fetches), also = unwrap(targets);
    const nb::gil_scoped_release released;
    if (graph_->size() != known_) session_->extend(*graph_);
    known_ = graph_->size();
    return session_->run(given, wanted, also);
  }

 private:
  std::shared_ptr<Task> task_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<Graph> graph_;
  int known_ = -1;  // nodes that the session has
};

struct PyModel {
  PyGraph graph;
  std::vector<std::pair<std::string, PyOutput>> inputs, outputs;
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
  for (const OnnxValue& v : model.inputs) out.inputs.emplace_back(v.name, PyOutput{out.graph.graph, v.output});
  for (const OnnxValue& v : model.outputs) {
    out.outputs.emplace_back(v.name, PyOutput{out.graph.graph, v.output});
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

using NamedOutputs = std::vector<std::pair<std::string, PyOutput>>;

// `session`: whose values the variables have; none: the initial ones.
void export_model(const std::string& path, const PyGraph& graph, const NamedOutputs& inputs,
                  const NamedOutputs& outputs, std::optional<PySession*> session) {
  OnnxExport what;
  for (const auto& [name, o] : inputs) what.inputs.push_back({name, o.output, {}});
  for (const auto& [name, o] : outputs) what.outputs.push_back({name, o.output, {}});
  const std::vector<VariableInfo> all = variables(*graph.graph);
  if (session) {
    what.variables = (*session)->values(all);
  } else if (!all.empty()) {
    const PyGraph copy{graph.graph->clone()};  // to which the initializer is added
    PySession fresh(copy, 1);
    fresh.run({}, {}, {{copy.graph, initializer(*copy.graph)}});
    what.variables = fresh.values(all);
  }
  const nb::gil_scoped_release released;
  export_onnx(path, *graph.graph, what);
}

std::vector<std::optional<PyOutput>> gradients_of(const std::vector<PyOutput>& ys, const std::vector<PyOutput>& xs) {
  const Outputs wanted = unwrap(xs);
  std::vector<std::optional<PyOutput>> out;
  const std::vector<Gradient> found = gradients(unwrap(ys), wanted);
  for (std::size_t i = 0; i < found.size(); ++i)
    out.push_back(found[i] ? std::optional(PyOutput{xs[i].graph, dense(found[i], wanted[i])}) : std::nullopt);
  return out;
}

void bind_values(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor")
      .def_static("from_array", &from_array, "array"_a, "dtype"_a = "")
      .def_static("from_strings", &from_strings, "items"_a, "shape"_a)
      .def("array", &to_array)
      .def_prop_ro("dtype", [](const Tensor& t) { return std::string(name(t.dtype())); })
      .def_prop_ro("shape", [](const Tensor& t) { return *dims_of_shape(t.shape()); })
      .def("__repr__", [](const Tensor& t) { return t.to_string(); });
  nb::class_<PyOutput>(m, "Output")
      .def_prop_ro("name", [](const PyOutput& o) { return o.output.name(); })
      .def_prop_ro("dtype", [](const PyOutput& o) { return std::string(name(o.output.dtype())); })
      .def_prop_ro("shape", [](const PyOutput& o) { return dims_of_shape(o.output.shape()); })
      .def("__eq__", [](const PyOutput& a, const PyOutput& b) { return a.output == b.output; })
      .def("__hash__", [](const PyOutput& o) { return (o.output.node << 4) ^ o.output.index; });
}

void bind_graph(nb::module_& m) {
  nb::class_<PyGraph>(m, "Graph")
      .def(nb::init<>())
      .def(
          "placeholder",
          [](PyGraph& g, const std::string& dtype, const Dims& shape, const std::string& node_name) {
            return PyOutput{g.graph, placeholder(*g.graph, dtype_named(dtype), shape_of_dims(shape), node_name)};
          },
          "dtype"_a, "shape"_a.none(), "name"_a = "")
      .def(
          "constant",
          [](PyGraph& g, const Tensor& value, const std::string& node_name) {
            return PyOutput{g.graph, constant(*g.graph, value.clone(), node_name)};
          },
          "value"_a, "name"_a = "")
      .def("op", &add_named_op, "op"_a, "inputs"_a, "attributes"_a, "name"_a = "")
      .def("output",
           [](PyGraph& g, const std::string& text) {
             return PyOutput{g.graph, g.graph->output(text)};
           })
      .def("initializer",
           [](PyGraph& g) {
             return PyOutput{g.graph, initializer(*g.graph)};
           })
      .def("__len__", [](const PyGraph& g) { return g.graph->size(); })
      .def("__str__", [](const PyGraph& g) { return g.graph->dump(); });
  m.def("gradients", &gradients_of, "ys"_a, "xs"_a);
  m.def("ops", [] { return standard_ops().names(); });
  m.def(
      "signature", [](const std::string& op) { return signature_of(standard_ops().get(op)); }, "op"_a);
}

void bind_running(nb::module_& m) {
  nb::class_<PySession>(m, "Session")
      .def(nb::init<const PyGraph&, int, bool, const std::optional<PyTask>&>(), "graph"_a, "threads"_a = 0,
           "inference"_a = false, "task"_a.none() = nb::none())
      .def("run", &PySession::run, "feeds"_a, "fetches"_a, "targets"_a)
      .def("close", &PySession::close);
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
  // Error(message, code): the package catches nothing, so that messages reach users as they are.
  static const nb::object error =
      nb::steal(PyErr_NewException("troupe.Error", PyExc_RuntimeError, nullptr));  // NOLINT: lives as long as Python
  m.attr("Error") = error;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const troupe::Error& e) {
      const nb::object made = error(e.message());
      made.attr("code") = std::string(troupe::name(e.code()));
      PyErr_SetObject(error.ptr(), made.ptr());
    }
  });
  bind_values(m);
  bind_graph(m);
  bind_running(m);
  bind_cluster(m);
  bind_data(m);
  bind_files(m);
  bind_measures(m);
  bind_onnx(m);
  bind_saved_model(m);
}
