#include "troupe/graph/verify.hpp"

#include <algorithm>
#include <atomic>

#include <troupe/graph/infer_node.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/run_order.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__)
constexpr bool kVerifyByDefault = true;
#else
constexpr bool kVerifyByDefault = false;
#endif

std::atomic<bool> verifying{kVerifyByDefault};

template <class... Args>
[[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) {
  fail(Code::internal, format, std::forward<Args>(args)...);
}

void check_edges(const Graph& graph, const Node& node) {
  const auto exists = [&](int id) { return id >= 0 && id < graph.size(); };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Endpoint& e = node.inputs[i];
    if (!exists(e.node)) broken("input {} comes from node number {}, which does not exist", i, e.node);
    const Node& source = graph.node(e.node);
    if (e.index < 0 || static_cast<std::size_t>(e.index) >= source.output_types.size())
      broken("input {} is '{}:{}', but {} '{}' has {} outputs", i, source.name, e.index, source.op->name, source.name,
             source.output_types.size());
  }
  for (const int c : node.controls)
    if (!exists(c)) broken("a control input is node number {}, which does not exist", c);
}

void check_inference(const Graph& graph, const Node& node) {
  if (node.output_shapes.size() != node.output_types.size())
    broken("it has {} output types and {} shapes", node.output_types.size(), node.output_shapes.size());
  Node inferred = node;
  infer_node(graph, inferred);
  for (const auto& [key, value] : inferred.attributes.all())
    if (!node.attributes.has(key)) broken("attribute '{}' is missing", key);
  if (inferred.output_types.size() != node.output_types.size())
    broken("it has {} outputs instead of {}", node.output_types.size(), inferred.output_types.size());
  for (std::size_t i = 0; i < node.output_types.size(); ++i) {
    if (inferred.output_types[i] != node.output_types[i])
      broken("output {} is {} instead of {}", i, name(node.output_types[i]), name(inferred.output_types[i]));
    if (!inferred.output_shapes[i].compatible_with(node.output_shapes[i]))
      broken("output {} has shape {}, but inference says {}", i, node.output_shapes[i].to_string(),
             inferred.output_shapes[i].to_string());
  }
}

void check_names(const Graph& graph, const Node& node) {
  if (graph.find(node.name) != &node) broken("the graph has another node with this name");
  if (graph.ops().find(node.op->name) != node.op) broken("its op is not one of the graph's");
  DeviceName::parse(node.device);
  if (!node.colocate_with.empty() && !graph.find(node.colocate_with))
    broken("it is colocated with '{}', which does not exist", node.colocate_with);
}

void check_functions(const Graph& graph, const Graph& whole, const Node& node) {
  for (const auto& [key, value] : node.attributes.all())
    if (const auto* called = std::get_if<FunctionName>(&value))
      if (!graph.function(called->value) && !whole.function(called->value))
        broken("attribute '{}' names function '{}', which does not exist", key, called->value);
}

// Runs a check of a node; adds the node to its errors.
template <class Check>
void at(const Node& node, Check check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(Code::internal, error.message()).within(fmt::format("{} '{}'", node.op->name, node.name));
  }
}

void check_nodes(const Graph& graph, const Graph& whole) {
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    at(node, [&] {
      if (node.id != id) broken("its id is {} instead of {}", node.id, id);
      check_edges(graph, node);
      check_names(graph, node);
      check_functions(graph, whole, node);
    });
  }
  try {
    graph.topological_order();
  } catch (const Error& error) {
    throw Error(Code::internal, error.message());
  }
  for (int id = 0; id < graph.size(); ++id) at(graph.node(id), [&] { check_inference(graph, graph.node(id)); });
}

void check_body(const Function& function, const Graph& whole) {
  try {
    check_nodes(*function.body, whole);
    for (const auto* ends : {&function.arguments, &function.results})
      for (const Endpoint& e : *ends)
        if (e.node < 0 || e.node >= function.body->size() || e.index < 0 ||
            static_cast<std::size_t>(e.index) >= function.body->node(e.node).output_types.size())
          broken("an argument or result is output {} of node number {}, which the body does not have", e.index, e.node);
    for (const auto& [name, inner] : function.body->functions()) check_body(inner, whole);
  } catch (const Error& error) {
    throw error.within(fmt::format("function '{}'", function.name));
  }
}

void check_order(const Graph& before, const Graph& after) {
  for (const auto& [first, second] : lost_order(before, after)) {
    const Node &a = after.node(first), &b = after.node(second);
    broken("{} '{}' no longer runs after {} '{}'", b.op->name, b.name, a.op->name, a.name);
  }
}

void check_fetches(const Graph& before, const Graph& after) {
  for (int id = 0; id < before.size(); ++id) {
    const Node& fetch = before.node(id);
    if (fetch.op->role != OpRole::fetch) continue;
    const Node* kept = after.find(fetch.name);
    if (!kept || kept->op->role != OpRole::fetch) broken("Fetch '{}' is lost", fetch.name);
    const auto index = [](const Node& node) { return node.attributes.integer("index"); };
    if (index(*kept) != index(fetch))
      broken("Fetch '{}' has index {} instead of {}", fetch.name, index(*kept), index(fetch));
    const DType was = before.dtype(fetch.inputs[0]), is = after.dtype(kept->inputs[0]);
    if (was != is) broken("Fetch '{}' is {} instead of {}", fetch.name, name(is), name(was));
    const Shape &shape = before.shape(fetch.inputs[0]), &now = after.shape(kept->inputs[0]);
    if (!now.compatible_with(shape))
      broken("Fetch '{}' has shape {} instead of {}", fetch.name, now.to_string(), shape.to_string());
  }
}

const Node* some_target(const Graph& graph) {
  for (int id = 0; id < graph.size(); ++id)
    if (graph.node(id).attributes.has(kTargetAttribute)) return &graph.node(id);
  return nullptr;
}

template <class Check>
void named_by_pass(std::string_view pass, Check check) {
  try {
    check();
  } catch (const Error& error) {
    throw error.within(fmt::format("pass '{}' produced a broken graph", pass));
  }
}

}  // namespace

void verify(const Graph& graph) {
  check_nodes(graph, graph);
  for (const auto& [name, function] : graph.functions()) check_body(function, graph);
}

void verify_placed(const Graph& graph) {
  verify(graph);
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    at(node, [&] {
      if (!DeviceName::parse(node.device).complete()) broken("it is not placed: its device is '{}'", node.device);
      for (const Endpoint& e : node.inputs)
        if (graph.dtype(e) == DType::resource && graph.node(e.node).device != node.device)
          broken("it runs on {}, but its variable '{}' is on {}", node.device, graph.node(e.node).name,
                 graph.node(e.node).device);
    });
  }
}

void verify_rewrite(const Graph& before, const Graph& after) {
  verify(after);
  check_fetches(before, after);
  if (const Node* target = some_target(before); target && !some_target(after))
    broken("no target is left, but '{}' was one", target->name);
  check_order(before, after);
}

void verify_passes(bool on) { verifying.store(on, std::memory_order_relaxed); }
bool passes_are_verified() { return verifying.load(std::memory_order_relaxed); }

std::unique_ptr<Graph> verified(std::string_view pass, std::unique_ptr<Graph> after) {
  if (passes_are_verified()) named_by_pass(pass, [&] { verify(*after); });
  return after;
}

std::unique_ptr<Graph> verified(std::string_view pass, const Graph& before, std::unique_ptr<Graph> after) {
  if (passes_are_verified()) named_by_pass(pass, [&] { verify_rewrite(before, *after); });
  return after;
}

}  // namespace troupe
