// troupe-onnx import and export: models from and to files of our graphs.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/onnx/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/text.hpp>

namespace troupe::onnx_tool {
namespace {

bool is_text(const std::string& path) { return path.ends_with(".txt"); }

std::unique_ptr<Graph> read_graph(const std::string& path) {
  const std::string bytes = read_file(path);
  try {
    return is_text(path) ? parse_text(bytes) : parse_graph(bytes);
  } catch (const Error& error) {
    throw error.within(path);
  }
}

std::vector<OnnxValue> named(Graph& graph, const std::string& names) {
  std::vector<OnnxValue> out;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) out.push_back({name, graph.output(name), {}});
  return out;
}

std::vector<OnnxValue> placeholders(Graph& graph) {
  std::vector<OnnxValue> out;
  for (int id = 0; id < graph.size(); ++id)
    if (graph.node(id).op->role == OpRole::placeholder) out.push_back({"", graph.output(graph.node(id)), {}});
  return out;
}

void print_values(const char* what, const std::vector<OnnxValue>& values) {
  for (const OnnxValue& value : values)
    fmt::print("{} {} {} is {}\n", what, value.name, to_string(value.type), value.output.name());
}

}  // namespace

int import_model(const std::string& path, const std::string& out, bool json) {
  const OnnxModel model = import_onnx(path);
  write_file(out, is_text(out) ? to_text(*model.graph) : serialize(*model.graph));
  if (json) {
    const auto names = [](const std::vector<OnnxValue>& values) {
      nlohmann::json all = nlohmann::json::array();
      for (const OnnxValue& value : values) all.push_back({{"name", value.name}, {"tensor", value.output.name()}});
      return all;
    };
    fmt::print("{}\n", json_text({{"event", "import"},
                                  {"file", out},
                                  {"nodes", model.graph->size()},
                                  {"variables", model.variables.size()},
                                  {"inputs", names(model.inputs)},
                                  {"outputs", names(model.outputs)}}));
    return 0;
  }
  fmt::print("{}: a graph of {} nodes, {} variables\n", out, model.graph->size(), model.variables.size());
  print_values("input ", model.inputs);
  print_values("output", model.outputs);
  return 0;
}

int export_model(const std::string& path, const std::string& out, const std::string& inputs, const std::string& outputs,
                 bool json) {
  const std::unique_ptr<Graph> graph = read_graph(path);
  OnnxExport what;
  what.inputs = inputs.empty() ? placeholders(*graph) : named(*graph, inputs);
  what.outputs = named(*graph, outputs);
  std::vector<Output> reads;
  const std::vector<VariableInfo> all = variables(*graph);
  for (const VariableInfo& v : all) reads.push_back(find_variable(*graph, v.name).read());
  if (!reads.empty()) {
    const Output init = initializer(*graph, graph->unique_name("initializer"));
    Session session(*graph);
    session.run_targets({init});
    std::vector<Tensor> values = session.run(reads);
    for (std::size_t i = 0; i < all.size(); ++i) what.variables[all[i].name] = std::move(values[i]);
  }
  export_onnx(out, *graph, what);
  if (json)
    fmt::print("{}\n", json_text({{"event", "export"}, {"file", out}, {"variables", what.variables.size()}}));
  else
    fmt::print("{}: a model with {} inputs, {} outputs, {} variables\n", out, what.inputs.size(), what.outputs.size(),
               what.variables.size());
  return 0;
}

}  // namespace troupe::onnx_tool
