// The plan of a partition, or of a function's body, while it is built: in four phases, each a function over the draft.
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

  // By node, from the first phase: where each output is.
  std::vector<std::vector<InputRef>> values;

  // From the second phase. By segment: its nodes, in order. By node: its segment and its arrival, or -1.
  std::vector<std::vector<int>> members;
  std::vector<int> segment_of;
  std::vector<int> arrival_of;

  // By node of the plan, from the third phase.
  std::vector<Reuse> reuse;

  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  // An attribute that counts something: edges, indices, slices, shards. Throws invalid_argument if it is out of range.
  static std::uint32_t number(const Node& node, const char* attribute);
  static std::uint32_t channel(const Node& node);
};

// 1. Checks that the nodes may stand where they do, and gives every output a slot, or makes it a constant or a
// variable.
void place_values(PlanDraft& draft);

// 2. Forms segments of the nodes with equal sets of arrivals above them, and connects them with what they wait for.
void form_segments(PlanDraft& draft);

// The plan of a branch of an If; `attribute` names the function.
using BranchPlan = std::function<std::shared_ptr<const Plan>(const Node& node, const char* attribute)>;

// 3. Adds the nodes with their inputs, and what each runs: its kernel, or where its tensor goes.
void emit_nodes(PlanDraft& draft, const BranchPlan& branch);

// 4. Finds out which nodes may run side by side, when departures are flushed, who uses a value last, and which outputs
// share memory. A function's results are bound before.
void order_and_place(PlanDraft& draft);

}  // namespace troupe
