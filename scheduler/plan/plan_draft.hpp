// The plan of a partition, or of a function body, under construction: built in four phases, each a function of the
// draft.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {

struct PlanDraft {
  // `function`: null for a partition.
  PlanDraft(const Graph& graph, const Function* function, const KernelRegistry& kernels, const std::string& device_type,
            const std::string& device_name);

  const Graph& graph;
  const Function* function;
  const KernelRegistry& kernels;
  const std::string& device_type;
  std::unique_ptr<Plan> plan;
  std::vector<int> order;  // of nodes: topological, contributions first

  // By node, from the first phase: the location of each output.
  std::vector<std::vector<InputRef>> values;

  // From the second phase. By segment: its nodes, in order. By node: its segment and its arrival, or -1.
  std::vector<std::vector<int>> members;
  std::vector<int> segment_of;
  std::vector<int> arrival_of;

  // By node of the plan, from the third phase.
  std::vector<Reuse> reuse;

  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  // An attribute that numbers something: edges, indices, slices, shards. Throws invalid_argument if out of range.
  static std::uint32_t number(const Node& node, const char* attribute);
  static std::uint32_t channel(const Node& node);
  static std::uint32_t ask(const Node& node);
};

// 1. Checks that nodes are allowed where they are, and makes every output a slot, a constant or a variable.
void place_values(PlanDraft& draft);

// 2. Groups nodes with equal sets of arrivals above them into segments, and links segments to what they wait for.
void form_segments(PlanDraft& draft);

// The plan of a function that a node of control flow runs, by attribute.
using FunctionPlan = std::function<std::shared_ptr<const Plan>(const Node& node, const char* attribute)>;

// 3. Adds the nodes with their inputs and targets: a kernel, or the destination of a tensor.
void emit_nodes(PlanDraft& draft, const FunctionPlan& function);

// 4. Determines which nodes may run in parallel, when departures are flushed, the last use of each value, and which
// outputs share memory. A function's results must be bound before.
void order_and_place(PlanDraft& draft);

}  // namespace troupe
