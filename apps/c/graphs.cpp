// The C API: ops, graphs, variables and gradients of graphs.
#include <fmt/format.h>

#include "apps/c/handles.hpp"
#include <troupe/actors/cluster/op_libraries.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/text.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/op_signature.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe::c {
namespace {

constexpr troupe_output kNoOutput{nullptr, -1, 0};

troupe_output c_output(troupe_graph* graph, const Output& output) { return {graph, output.node, output.index}; }

// Without those of libraries.
const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = standard_ops().names();
    std::erase_if(all, [](const std::string& name) { return troupe::library_of(name) != nullptr; });
    return all;
  }();
  return names;
}

troupe_graph* new_graph(std::shared_ptr<Graph> graph) {
  auto out = std::make_unique<troupe_graph>();
  out->graph = std::move(graph);
  return out.release();
}

VariableRef variable_of(const troupe_output& handle) {
  const Output output = output_of(handle, "variable");
  if (output.source().op->role != OpRole::variable)
    refuse("variable", fmt::format("is '{}', which is no variable", output.name()));
  return find_variable(*output.graph, output.source().name);
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)
using troupe::Output;
using troupe::Outputs;

size_t troupe_num_ops(void) {
  return guarded(__func__, nullptr, std::size_t{0}, [] { return op_names().size(); });
}
const char* troupe_op_name(size_t index) {
  return guarded(__func__, nullptr, static_cast<const char*>(nullptr),
                 [&] { return index < op_names().size() ? op_names()[index].c_str() : nullptr; });
}
char* troupe_op_signature(const char* op, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr),
                 [&] { return new_text(signature_of(troupe::standard_ops().get(text_of(op, "op")))); });
}

troupe_code troupe_load_op_library(const char* path, troupe_status* status) {
  return guarded(__func__, status, [&] { troupe::load_op_library(text_of(path, "path")); });
}

troupe_graph* troupe_graph_new(troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_graph*>(nullptr),
                 [] { return new_graph(std::make_shared<troupe::Graph>()); });
}

troupe_graph* troupe_graph_from_text(const char* text, size_t length, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_graph*>(nullptr), [&] {
    const auto given = array(text, length, "text");
    return new_graph(troupe::parse_text(std::string_view(given.data(), given.size())));
  });
}

troupe_graph* troupe_graph_from_onnx(const char* path, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_graph*>(nullptr), [&] {
    auto model = troupe::import_onnx(text_of(path, "path"), {.weights = troupe::OnnxImportOptions::Weights::constants});
    auto out = std::make_unique<troupe_graph>();
    for (const auto* values : {&model.inputs, &model.outputs})
      for (const troupe::OnnxValue& value : *values) out->named.emplace(value.name, value.output);
    out->graph = std::move(model.graph);
    return out.release();
  });
}

void troupe_graph_delete(troupe_graph* graph) { destroy(graph); }

char* troupe_graph_to_text(const troupe_graph* graph, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr),
                 [&] { return new_text(to_text(*check(graph, "graph").graph)); });
}

int32_t troupe_graph_num_nodes(const troupe_graph* graph) {
  return guarded(__func__, nullptr, std::int32_t{0}, [&] { return check(graph, "graph").graph->size(); });
}

troupe_output troupe_graph_placeholder(troupe_graph* graph, troupe_dtype dtype, const int64_t* dims, int32_t rank,
                                       const char* name, troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] {
    troupe::Graph& to = *check(graph, "graph").graph;
    return c_output(graph, placeholder(to, dtype_of_c(dtype), shape_of(dims, rank), text_or_empty(name)));
  });
}

troupe_output troupe_graph_constant(troupe_graph* graph, const troupe_tensor* value, const char* name,
                                    troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] {
    troupe::Graph& to = *check(graph, "graph").graph;
    return c_output(graph, constant(to, check(value, "value").tensor, text_or_empty(name)));
  });
}

troupe_output troupe_graph_op(troupe_graph* graph, const char* op, const troupe_output* inputs, size_t num_inputs,
                              const troupe_attributes* attributes, const troupe_node_options* options,
                              troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] {
    const auto o = options_of(options);
    troupe::Graph& to = *check(graph, "graph").graph;
    troupe::NodeSpec spec{.op = text_of(op, "op"),
                          .name = text_or_empty(o.name),
                          .inputs = outputs_of(inputs, num_inputs, "inputs"),
                          .controls = nodes_of(o.controls, o.num_controls, "options.controls"),
                          .device = text_or_empty(o.device)};
    if (attributes) spec.attributes = check(attributes, "attributes").attributes;
    return c_output(graph, {&to, to.add(std::move(spec)).id, 0});
  });
}

troupe_output troupe_graph_output(troupe_graph* graph, const char* name, troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] {
    troupe_graph& of = check(graph, "graph");
    const std::string text = text_of(name, "name");
    const auto known = of.named.find(text);
    return c_output(graph, known != of.named.end() ? known->second : of.graph->output(text));
  });
}

int32_t troupe_output_count(troupe_output output, troupe_status* status) {
  return guarded(__func__, status, std::int32_t{-1}, [&] {
    const Output node = node_of(output, "output");
    return static_cast<std::int32_t>(node.source().output_types.size());
  });
}

char* troupe_output_name(troupe_output output, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr), [&] {
    const Output node = node_of(output, "output");
    return new_text(output.index == 0 ? node.source().name : output_of(output, "output").name());
  });
}

troupe_dtype troupe_output_dtype(troupe_output output, troupe_status* status) {
  return guarded(__func__, status, TROUPE_INVALID,
                 [&] { return static_cast<troupe_dtype>(output_of(output, "output").dtype()); });
}

int32_t troupe_output_shape(troupe_output output, int64_t* dims, int32_t capacity, troupe_status* status) {
  return guarded(__func__, status, std::int32_t{-2},
                 [&] { return write_shape(output_of(output, "output").shape(), dims, capacity); });
}

troupe_output troupe_graph_variable(troupe_graph* graph, const char* name, troupe_output initial_value,
                                    const troupe_variable_options* options, troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] {
    troupe::Graph& to = *check(graph, "graph").graph;
    const auto o = options_of(options);
    const auto made = variable(to, {.name = text_of(name, "name"),
                                    .initial_value = output_of(initial_value, "initial_value"),
                                    .trainable = !o.not_trainable,
                                    .device = text_or_empty(o.device)});
    return c_output(graph, made.handle);
  });
}

troupe_output troupe_variable_read(troupe_output variable, troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] { return c_output(variable.graph, variable_of(variable).read()); });
}

troupe_output troupe_variable_assign(troupe_output variable, troupe_output value, troupe_status* status) {
  return guarded(__func__, status, kNoOutput,
                 [&] { return c_output(variable.graph, variable_of(variable).assign(output_of(value, "value"))); });
}

troupe_output troupe_variable_assign_add(troupe_output variable, troupe_output value, troupe_status* status) {
  return guarded(__func__, status, kNoOutput,
                 [&] { return c_output(variable.graph, variable_of(variable).assign_add(output_of(value, "value"))); });
}

int32_t troupe_graph_num_variables(troupe_graph* graph, troupe_status* status) {
  return guarded(__func__, status, std::int32_t{-1},
                 [&] { return static_cast<std::int32_t>(variables(*check(graph, "graph").graph).size()); });
}

troupe_output troupe_graph_variable_at(troupe_graph* graph, int32_t index, troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&]() -> troupe_output {
    const auto all = variables(*check(graph, "graph").graph);
    if (index < 0 || static_cast<std::size_t>(index) >= all.size())
      troupe::fail(troupe::Code::out_of_range, "there is no variable {}: the graph has {}", index, all.size());
    const troupe::Endpoint handle = all[static_cast<std::size_t>(index)].handle;
    return {graph, handle.node, handle.index};
  });
}

troupe_output troupe_graph_initializer(troupe_graph* graph, troupe_status* status) {
  return guarded(__func__, status, kNoOutput,
                 [&] { return c_output(graph, initializer(*check(graph, "graph").graph)); });
}

troupe_output troupe_graph_initialize_once(troupe_graph* graph, troupe_status* status) {
  return guarded(__func__, status, kNoOutput,
                 [&] { return c_output(graph, initialize_once(*check(graph, "graph").graph)); });
}

troupe_code troupe_graph_gradients(const troupe_output* ys, size_t num_ys, const troupe_output* xs, size_t num_xs,
                                   const troupe_output* grad_ys, troupe_output* gradients, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto to = array(gradients, num_xs, "gradients");
    const auto given = array(xs, num_xs, "xs");
    const std::vector<troupe_output> wanted(given.begin(), given.end());  // gradients may be written over them
    std::ranges::fill(to, kNoOutput);
    const Outputs of = outputs_of(ys, num_ys, "ys"), by = outputs_of(wanted.data(), num_xs, "xs");
    troupe::GradientOptions options;
    if (grad_ys) options.grad_ys = outputs_of(grad_ys, num_ys, "grad_ys");
    const std::vector<troupe::Gradient> found = troupe::gradients(of, by, options);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i]) to[i] = c_output(wanted[i].graph, dense(found[i], by[i]));
  });
}

troupe_output troupe_graph_minimize(troupe_output loss, const char* optimizer, troupe_status* status) {
  return guarded(__func__, status, kNoOutput, [&] {
    const auto parsed = troupe::parse_optimizer(text_of(optimizer, "optimizer"));
    return c_output(loss.graph, minimize(output_of(loss, "loss"), parsed));
  });
}
