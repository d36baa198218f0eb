// troupe-model convert and optimize: models that are written, read back and compared.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/model/runner.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/freeze.hpp>
#include <troupe/graph/passes/optimize.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/kernels/kernels.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe::model_tool {
namespace {

constexpr std::int64_t kComparedExamples = 2;

ModelFormat format_of_result(const Options& options, ModelFormat from) {
  for (const ModelFormat format : {ModelFormat::troupe, ModelFormat::tensorflow, ModelFormat::onnx})
    if (options.to == name(format)) return format;
  if (options.paths[1].ends_with(".onnx")) return ModelFormat::onnx;
  if (from == ModelFormat::troupe)
    invalid_argument("'{}' may become one of TensorFlow or of ONNX: say which with --to", options.paths[1]);
  return ModelFormat::troupe;
}

// The largest difference between two models over the signatures that both have. Their names may differ where `renamed`
// is the only one.
double difference_between(FileSystem& files, const Options& options, const AnyModel& from, const AnyModel& to,
                          const std::string& renamed) {
  Task task({.threads = options.threads});
  double largest = 0;
  for (const auto& [name, signature] : to.signatures) {
    const Runner ours(task, from, renamed.empty() ? name : renamed), theirs(task, to, name);
    const NamedTensors inputs = inputs_of(files, options, ours, options.batch > 0 ? options.batch : kComparedExamples);
    largest = std::max(largest, difference_of(theirs.run(inputs), ours.run(inputs)));
  }
  return largest;
}

// Reads back what was written. Prints the result.
int compare(FileSystem& files, const Options& options, const AnyModel& from, const std::string& renamed,
            nlohmann::json line, const std::string& text) {
  const std::string& path = options.paths[1];
  double largest = 0;
  std::string why;
  try {
    const Stage stage("comparing " + path);
    largest = difference_between(files, options, from, read_any_model(files, path), renamed);
  } catch (const Error& error) {
    throw error.within(fmt::format("'{}' is written, but not compared", path));
  }
  const bool same = largest <= options.tolerance;
  line.update({{"file", path}, {"difference", largest}, {"tolerance", options.tolerance}, {"same", same}});
  if (options.json)
    fmt::print("{}\n", json_text(line));
  else
    fmt::print("{}\nread back, it computes {}: results differ by at most {:.2g}, {:.2g} is allowed\n", text,
               same ? "the same" : "something else", largest, options.tolerance);
  return same ? 0 : 1;
}

// The placeholders and results of a graph become feeds and fetches, passes run, and they become placeholders again.
AnyModel optimized(const AnyModel& model, const std::function<void(const PassReport&)>& report) {
  const std::unique_ptr<Graph> frozen = freeze(*model.graph, model.values);
  Signature call;
  std::set<std::string> seen;
  for (const auto& [name, signature] : model.signatures)
    for (const auto& [key, spec] : signature.inputs)
      if (seen.insert(spec.tensor).second) call.feeds.push_back(spec.tensor);
  for (const auto& [name, signature] : model.signatures)
    for (const auto& [key, spec] : signature.outputs) call.fetches.push_back(spec.tensor);
  const std::unique_ptr<Device> device = make_cpu_device({.name = DeviceName::parse("/job:local/task:0/cpu:0")});
  KernelRegistry kernels;
  register_all_kernels(kernels);
  OptimizeOptions options{.inference = true, .report = report};
  options.has_kernel = [&](std::string_view op, DType dtype) { return kernels.supports(op, "CPU", dtype); };
  options.evaluator = [&](const Node& node, std::span<const Tensor> inputs) -> std::vector<Tensor> {
    if (!kernels.supports(node.op->name, "CPU", node.kernel_type())) return {};
    return run_single_kernel(node, inputs, kernels, *device);
  };
  const std::unique_ptr<Graph> made = troupe::optimize(make_callable_graph(*frozen, call), options);
  Rewriter rewriter(*made);
  std::vector<Endpoint> fetched(call.fetches.size());
  std::map<std::string, std::string> placeholders;
  for (std::size_t i = 0; i < call.feeds.size(); ++i) {
    const Output given = frozen->output(call.feeds[i]);
    const Node& node = rewriter.to().add({.op = "Placeholder",
                                          .name = rewriter.new_name(given.source().name),
                                          .attributes = {{"T", given.dtype()}, {"shape", given.shape()}}});
    placeholders[call.feeds[i]] = node.name;
    for (int id = 0; id < made->size(); ++id)
      if (made->node(id).op->role == OpRole::feed &&
          made->node(id).attributes.integer("index") == static_cast<std::int64_t>(i))
        rewriter.replace({id, 0}, {node.id, 0});
  }
  for (const int id : made->topological_order()) {
    const Node& node = made->node(id);
    if (node.op->role == OpRole::fetch)
      fetched[static_cast<std::size_t>(node.attributes.integer("index"))] = rewriter.mapped(node.inputs[0]);
    else if (node.op->role != OpRole::feed)
      rewriter.copy(node);
  }
  AnyModel out{.format = ModelFormat::troupe, .graph = rewriter.finish(), .signatures = model.signatures};
  std::size_t at = 0;
  for (auto& [name, signature] : out.signatures) {
    for (auto& [key, spec] : signature.inputs) spec.tensor = placeholders.at(spec.tensor);
    for (auto& [key, spec] : signature.outputs) spec.tensor = output_name(*out.graph, fetched[at++]);
  }
  return out;
}

}  // namespace

int convert(FileSystem& files, const Options& options) {
  const AnyModel from = read_any_model(files, options.paths[0]);
  const ModelFormat format = format_of_result(options, from.format);
  const bool one = format == ModelFormat::onnx;
  const std::string& signature = one ? signature_named(from, options.signature) : options.signature;
  {
    const Stage stage("writing " + options.paths[1]);
    write_any_model(files, options.paths[1], format, from, signature);
  }
  const std::string text =
      fmt::format("{}: {}, of {}: {}", options.paths[1], title(format), options.paths[0], title(from.format));
  return compare(files, options, from, one ? signature : "",
                 {{"event", "convert"}, {"from", name(from.format)}, {"to", name(format)}}, text);
}

int optimize(FileSystem& files, const Options& options) {
  const AnyModel from = read_any_model(files, options.paths[0]);
  const AnyModel made = optimized(from, [&](const PassReport& pass) {
    if (options.json) {
      fmt::print("{}\n", json_text({{"event", "pass"},
                                    {"pass", pass.pass},
                                    {"nodes_before", pass.nodes_before},
                                    {"nodes_after", pass.nodes_after},
                                    {"notes", pass.notes}}));
      return;
    }
    fmt::print("{:<22} {:>6} -> {} nodes\n", pass.pass, pass.nodes_before, pass.nodes_after);
    for (const std::string& note : pass.notes) fmt::print("  {}\n", note);
  });
  write_any_model(files, options.paths[1], ModelFormat::troupe, made);
  return compare(files, options, from, "", {{"event", "optimize"}, {"nodes", made.graph->size()}},
                 fmt::format("{}: {} nodes", options.paths[1], made.graph->size()));
}

}  // namespace troupe::model_tool
