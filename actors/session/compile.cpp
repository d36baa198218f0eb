#include "troupe/actors/session/compile.hpp"

#include <algorithm>
#include <chrono>

#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/graph/loaded_ops.hpp>
#include <troupe/graph/passes/check_numerics.hpp>
#include <troupe/graph/passes/mixed_precision.hpp>
#include <troupe/graph/passes/optimize.hpp>
#include <troupe/graph/passes/resource_calls.hpp>
#include <troupe/graph/placement/partition.hpp>
#include <troupe/scheduler/plan/plan.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe {
namespace {

// Constants are computed with the client's own kernels; nodes without one here are left to the step.
Evaluator evaluator(Device& device, const KernelRegistry& kernels) {
  return [&](const Node& node, std::span<const Tensor> inputs) -> std::vector<Tensor> {
    const std::string& type = device.attributes().type;
    if (!device.attributes().synchronous || !kernels.supports(node.op->name, type, node.kernel_type())) return {};
    return run_single_kernel(node, inputs, kernels, device);
  };
}

// Whether every device can run the op: then it does not matter where it is placed.
bool on_all(std::span<const DeviceInfo> devices, std::string_view op, DType dtype) {
  const std::string any(op), typed = fmt::format("{}:{}", op, name(dtype));
  const auto has = [](const DeviceInfo& device, const std::string& kernel) {
    return device.kernels.contains(kernel) || has_loaded_kernel(device.type, kernel);
  };
  return std::ranges::all_of(devices, [&](const DeviceInfo& d) { return has(d, any) || has(d, typed); });
}

// Not an optimization: it changes results, so it runs even with optimizations off.
std::unique_ptr<Graph> narrowed(std::unique_ptr<Graph> graph, DType precision, std::span<const DeviceInfo> devices,
                                std::string& text) {
  if (precision == DType::f32) return graph;
  MixedPrecisionReport report;
  const auto supports = [&](const std::string& op, DType dtype) { return on_all(devices, op, dtype); };
  graph = mixed_precision(*graph, {.precision = precision, .supports = supports}, &report);
  text += fmt::format("mixed precision {}: {}\n", name(precision), report.to_string());
  return graph;
}

std::vector<Fallback> fallbacks(const Graph& graph, const Graph& placed) {
  std::vector<Fallback> out;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const std::string& used = placed.node(id).device;
    if (node.device.empty() || node.op->is_client_side() ||
        DeviceName::parse(node.device).matches(DeviceName::parse(used)) ||
        std::ranges::find(out, node.device, &Fallback::requested) != out.end())
      continue;
    out.push_back({node.name, node.device, used});
  }
  return out;
}

std::string task_of(const std::string& device) { return DeviceName::parse(device).task_name().to_string(); }

OptimizeOptions optimize_options(const Compiler& compiler, const CompileOptions& options, std::string& text) {
  OptimizeOptions out;
  out.inference = options.inference.has_value();
  if (options.inference) out.switched_off = *options.inference;
  out.evaluator = evaluator(compiler.constant_device, compiler.kernels);
  out.has_kernel = [devices = compiler.devices](std::string_view op, DType dtype) {
    return on_all(devices, op, dtype);
  };
  out.report = [&text](const PassReport& r) {
    text += fmt::format("pass {}: {} -> {} nodes in {:.3f} ms\n", r.pass, r.nodes_before, r.nodes_after,
                        std::chrono::duration<double, std::milli>(r.time).count());
    for (const std::string& note : r.notes) text += fmt::format("  {}\n", note);
  };
  return out;
}

// Makes large constants ones that all plans of the graph share: those in memory that is not aligned would be copied to
// each plan.
void make_shareable(Graph& graph) {
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->role != OpRole::constant) continue;
    const Tensor& value = node.attributes.tensor("value");
    if (value.space().on_host() && value.dtype() != DType::string && value.num_bytes() >= kApartBytes &&
        reinterpret_cast<std::uintptr_t>(value.raw()) % kBufferAlignment != 0)
      graph.set_attribute(node, "value", value.clone());
  }
}

bool has_open_feed(const Graph& graph) {
  for (int id = 0; id < graph.size(); ++id)
    if (const Node& node = graph.node(id); node.op->role == OpRole::feed && !node.output_shapes[0].fully_known())
      return true;
  return false;
}

// Places and cuts what passes have made.
void place_and_cut(Compiled& out, std::unique_ptr<Graph> callable, const Compiler& compiler,
                   const CompileOptions& options) {
  if (has_resource_calls(*callable)) callable = expand_resource_calls(*callable);
  const auto placed = place(*callable, compiler.devices, {.client = options.client, .soft = options.soft_placement});
  out.placement = placement_report(*placed);
  out.report += out.placement;
  out.fallbacks = fallbacks(*callable, *placed);
  Partitioned cut = partition(*placed);

  out.tensors = std::make_shared<std::vector<Tensor>>();
  for (const auto& [device, part] : cut.parts) {
    const TaskName task = DeviceName::parse(device).task_name();
    proto::Partition& partition = *out.tasks[task].add_partition();
    partition.set_device(device);
    *partition.mutable_graph() = to_proto(*part, task == options.client ? out.tensors.get() : nullptr);
  }
  for (auto& [task, body] : out.tasks) {
    body.set_session(options.session.value);
    body.set_graph(options.graph.value);
    body.set_client(options.client.to_string());
    body.set_container(options.container);
    for (const EdgeInfo& edge : cut.edges) {
      const std::string from = task_of(edge.from), to = task_of(edge.to);
      if (from == to || (from != task.to_string() && to != task.to_string())) continue;
      proto::Edge& crossing = *body.add_edge();
      crossing.set_id(edge.edge.value);
      crossing.set_from_task(from);
      crossing.set_to_task(to);
    }
    for (const TaskName& shard : options.shards) body.add_shard(shard.to_string());
    if (task == options.client)
      for (const auto& [other, unused] : out.tasks)
        if (other != task) body.add_participant(other.to_string());
  }
  out.parts = std::move(cut.parts);
}

}  // namespace

Compiled compile(const Graph& graph, const Signature& signature, const Compiler& compiler,
                 const CompileOptions& options) {
  Compiled out;
  auto callable = make_callable_graph(graph, signature);
  callable = narrowed(std::move(callable), options.precision, compiler.devices, out.report);
  if (options.check_numerics) callable = check_numerics(*callable);
  if (options.optimize) {
    OptimizeOptions to_run = optimize_options(compiler, options, out.report);
    if (options.shape_classes && has_open_feed(*callable)) {
      make_shareable(*callable);
      to_run.before_shapes = [&](const Graph& prepared) { out.prepared = prepared.clone(); };
    }
    callable = optimize(std::move(callable), to_run);
  }
  place_and_cut(out, std::move(callable), compiler, options);
  return out;
}

Compiled compile_for_shapes(const Graph& prepared, const std::map<std::int64_t, Shape>& feeds, const Compiler& compiler,
                            const CompileOptions& options) {
  Compiled out;
  OptimizeOptions to_run = optimize_options(compiler, options, out.report);
  to_run.feed_shapes = feeds;
  place_and_cut(out, optimize(prepared.clone(), to_run), compiler, options);
  return out;
}

std::string explain_call(const Compiled& compiled, const KernelRegistry& kernels) {
  std::string text = compiled.report;
  for (const auto& [device, part] : compiled.parts) {
    const std::string type = DeviceName::parse(device).type.value_or("");
    if (kernels.list(type).empty())
      text += fmt::format("plan for {}: made by its task ({} nodes); this task has no kernels for {}\n", device,
                          part->size(), type);
    else
      text += build_plan(*part, kernels, type, device)->dump();
  }
  return text;
}

}  // namespace troupe
