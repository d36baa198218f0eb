// troupe-model info and check.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/model/runner.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/scheduler/plan/cost.hpp>

namespace troupe::model_tool {
namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kMaxOnnxBytes = (1ull << 31) - 1;

using Specs = std::map<std::string, ModelSignature::TensorSpec>;

Json json_of(const Specs& specs) {
  Json out = Json::object();
  for (const auto& [key, spec] : specs) {
    Json shape = nullptr;
    if (spec.shape.has_rank()) {
      shape = Json::array();
      for (const std::int64_t d : spec.shape.dims()) shape.push_back(d == kUnknown ? Json(nullptr) : Json(d));
    }
    out[key] = {{"dtype", name(spec.dtype)}, {"shape", shape}, {"tensor", spec.tensor}};
    if (!spec.description.empty()) out[key]["description"] = spec.description;
  }
  return out;
}

// Of a signature's graph where the first dimensions that are not known are 1: multiplications and additions of products
// of matrices and of convolutions, outside of branches and loops.
double operations_of_one(const AnyModel& model, const ModelSignature& signature) {
  std::vector<Endpoint> needed;
  for (const auto* specs : {&signature.inputs, &signature.outputs})
    for (const auto& [key, spec] : *specs) needed.push_back(model.graph->endpoint(spec.tensor));
  const std::unique_ptr<Graph> graph = prune(*model.graph, needed, {});
  for (const auto& [key, spec] : signature.inputs) {
    Shape one = spec.shape;
    if (one.has_rank() && one.rank() > 0 && one[0] == kUnknown) one.set_dim(0, 1);
    const Node& node = graph->node(graph->endpoint(spec.tensor).node);
    if (node.op->role == OpRole::placeholder) graph->change_attributes(node, {{"shape", one}});
  }
  double sum = 0;
  for (const int id : graph->topological_order()) {
    const Node& node = graph->node(id);
    if (node.op->has_kernel()) {
      try {
        graph->change_attributes(node, {});
      } catch (const Error&) {  // shapes that do not fit one example: as they were
      }
    }
    sum += 2 * multiply_adds(*graph, graph->node(id));
  }
  return sum;
}

std::map<std::string, std::int64_t> ops_of(const Graph& graph) {
  std::map<std::string, std::int64_t> out;
  for (int id = 0; id < graph.size(); ++id) ++out[graph.node(id).op->name];
  for (const auto& [name, function] : graph.functions())
    for (int id = 0; id < function.body->size(); ++id) ++out[function.body->node(id).op->name];
  return out;
}

std::string described(const std::string& text) { return text.empty() ? "" : ": " + text; }

void print_specs(const char* what, const Specs& specs) {
  for (const auto& [key, spec] : specs)
    fmt::print("  {}    {} {}{}\n", what, key, type_text(spec), described(spec.description));
}

std::string count_text(double count) {
  for (const auto& [unit, size] : {std::pair{"G", 1e9}, {"M", 1e6}, {"k", 1e3}})
    if (count >= size) return fmt::format("{:.2f} {}", count / size, unit);
  return fmt::format("{:.0f} ", count);
}

// Ops that no kernel of this machine's CPU computes, with their nodes.
std::map<std::string, std::string> ops_without_kernels(const Graph& graph, const KernelRegistry& kernels) {
  std::map<std::string, std::string> out;
  const auto look = [&](const Graph& at) {
    for (int id = 0; id < at.size(); ++id) {
      const Node& node = at.node(id);
      if (node.op->has_kernel() && !kernels.supports(node.op->name, "CPU", node.kernel_type()))
        out.emplace(fmt::format("{} of {}", node.op->name, name(node.kernel_type())), node.name);
    }
  };
  look(graph);
  for (const auto& [name, function] : graph.functions()) look(*function.body);
  return out;
}

// What a file of ONNX says of itself that has ops which are not known.
int info_of_unknown(FileSystem& files, const Options& options) {
  const OnnxInfo info = onnx_info(read_file(files, options.paths[0], kMaxOnnxBytes));
  if (options.json) {
    const auto typed = [](const std::vector<std::pair<std::string, std::string>>& values) {
      Json out = Json::object();
      for (const auto& [name, type] : values) out[name] = {{"type", type}};
      return out;
    };
    const Json signature = {{"inputs", typed(info.inputs)}, {"outputs", typed(info.outputs)}};
    fmt::print("{}\n", json_text({{"event", "info"},
                                  {"model", options.paths[0]},
                                  {"format", name(ModelFormat::onnx)},
                                  {"producer", info.producer},
                                  {"opsets", info.opsets},
                                  {"signatures", {{kOnlySignature, signature}}},
                                  {"ops", info.ops},
                                  {"unknown_ops", info.unknown_ops},
                                  {"variables", info.initializers},
                                  {"parameters", info.parameters},
                                  {"bytes", info.parameter_bytes}}));
    return 0;
  }
  fmt::print("format      onnx{}\n", info.producer.empty() ? "" : ", " + info.producer);
  for (const auto& [domain, version] : info.opsets) fmt::print("opset       {} {}\n", domain, version);
  fmt::print("parameters  {} in {} tensors, {} bytes\n", info.parameters, info.initializers, info.parameter_bytes);
  for (const auto& [name, type] : info.inputs) fmt::print("  input     {} {}\n", name, type);
  for (const auto& [name, type] : info.outputs) fmt::print("  output    {} {}\n", name, type);
  for (const auto& [op, count] : info.ops) fmt::print("op          {} {}\n", op, count);
  for (const std::string& op : info.unknown_ops) fmt::print("unknown op  {}\n", op);
  return 0;
}

}  // namespace

int info(FileSystem& files, const Options& options) {
  AnyModel model;
  try {
    model = read_any_model(files, options.paths[0]);
  } catch (const Error& error) {
    if (error.code() == Code::unimplemented && format_of_model(files, options.paths[0]) == ModelFormat::onnx)
      return info_of_unknown(files, options);
    throw;
  }
  const auto ops = ops_of(*model.graph);
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : model.values) {
    parameters += value.num_elements();
    bytes += value.num_bytes();
  }
  if (options.json) {
    Json signatures = Json::object();
    for (const auto& [name, signature] : model.signatures)
      signatures[name] = {{"inputs", json_of(signature.inputs)},
                          {"outputs", json_of(signature.outputs)},
                          {"description", signature.description},
                          {"operations", operations_of_one(model, signature)}};
    fmt::print("{}\n", json_text({{"event", "info"},
                                  {"model", options.paths[0]},
                                  {"format", name(model.format)},
                                  {"producer", model.producer},
                                  {"signatures", signatures},
                                  {"ops", ops},
                                  {"variables", model.values.size()},
                                  {"parameters", parameters},
                                  {"bytes", bytes}}));
    return 0;
  }
  fmt::print("format      {}{}\n", name(model.format), model.producer.empty() ? "" : ", " + model.producer);
  fmt::print("parameters  {} in {} variables, {} bytes\n", parameters, model.values.size(), bytes);
  for (const auto& [name, signature] : model.signatures) {
    fmt::print("signature   {}{}\n", name, described(signature.description));
    print_specs("input ", signature.inputs);
    print_specs("output", signature.outputs);
    fmt::print("  work      {}operations for one example\n", count_text(operations_of_one(model, signature)));
  }
  std::vector<std::pair<std::string, std::int64_t>> by_count(ops.begin(), ops.end());
  std::ranges::stable_sort(by_count, std::greater(), &std::pair<std::string, std::int64_t>::second);
  for (const auto& [op, count] : by_count) fmt::print("op          {} {}\n", op, count);
  return 0;
}

int check(FileSystem& files, const Options& options) {
  const std::string& path = options.paths[0];
  std::vector<std::string> wrong;
  std::string what;
  try {
    const AnyModel model = read_any_model(files, path, {.verify_values = true});
    what = fmt::format("{}, {} nodes, {} signature{}", title(model.format), model.graph->size(),
                       model.signatures.size(), model.signatures.size() == 1 ? "" : "s");
    Task task({.threads = 1});
    for (const auto& [op, node] : ops_without_kernels(*model.graph, task.kernels()))
      wrong.push_back(fmt::format("{} has no kernel: node '{}'", op, node));
    for (const VariableInfo& variable : variables(*model.graph))
      if (!model.values.contains(variable.name))
        wrong.push_back(fmt::format("variable '{}' has no value", variable.name));
    for (const auto& [name, signature] : model.signatures) {
      if (!wrong.empty()) break;
      const Runner compiled(task, model, name);
    }
  } catch (...) {
    wrong.push_back(current_error().message());
  }
  if (options.json) {
    fmt::print("{}\n", json_text({{"event", "check"}, {"model", path}, {"runs", wrong.empty()}, {"problems", wrong}}));
  } else if (wrong.empty()) {
    fmt::print("{}: {}: it runs\n", path, what);
  } else {
    for (const std::string& problem : wrong) fmt::print("{}: {}\n", path, problem);
  }
  return wrong.empty() ? 0 : 1;
}

}  // namespace troupe::model_tool
