// The last phase of building a plan: the order nodes need, when departures are flushed, and how long values live.
#include <algorithm>
#include <map>
#include <set>

#include <troupe/scheduler/plan/cost.hpp>
#include <troupe/scheduler/plan/departures.hpp>
#include <troupe/scheduler/plan/plan_draft.hpp>

namespace troupe {
namespace {

// Running the nodes of a segment in parallel pays off if there is work for many thread wake-ups, some 10 us each; if
// the longest path through it is much shorter than all of it; and if a node is worth passing between threads.
constexpr double kParallelNs = 200'000;
constexpr double kParallelWidth = 1.5;
constexpr double kParallelNodeNs = 1'000;

std::vector<SlotType> slot_types(const PlanDraft& draft) {
  std::vector<SlotType> types(draft.plan->num_slots);
  for (int id : draft.order) {
    const Node& n = draft.graph.node(id);
    for (std::size_t i = 0; i < n.output_types.size(); ++i)
      if (const InputRef ref = draft.values[PlanDraft::at(id)][i]; ref.kind == InputRef::Kind::slot)
        types[ref.index] = {n.output_types[i], n.output_shapes[i]};
  }
  return types;
}

std::size_t input_bytes(const PlanDraft& draft, const Node& n) {
  std::size_t bytes = 0;
  for (const Endpoint& e : n.inputs)
    if (draft.graph.shape(e).fully_known())
      bytes += static_cast<std::size_t>(draft.graph.shape(e).num_elements()) * size_of(draft.graph.dtype(e));
  return bytes;
}

void mark_flushes(PlanDraft& draft) {
  for (std::size_t s = 0; s < draft.members.size(); ++s) {
    const std::span nodes =
        std::span(draft.plan->nodes).subspan(draft.plan->segments[s].first_node, draft.members[s].size());
    std::vector<NodeWork> work;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = draft.graph.node(draft.members[s][i]);
      const bool leaves = n.op->is_departure();
      // Branches and loops are not estimated.
      const double cost = n.op->is_control_flow() ? kDepartureWaitNs + 1 : estimated_cost_ns(draft.graph, n);
      work.push_back({leaves ? 0 : cost, leaves, leaves ? input_bytes(draft, n) : 0});
    }
    const std::vector<bool> flushes = departure_flushes(work);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].flushes = flushes[i];
  }
}

// Members of the segment before `n`, also through nodes that do nothing at run time.
template <class Fn>
void each_member_before(const PlanDraft& draft, std::size_t segment, const Node& n, Fn fn) {
  std::vector<int> pending;
  const auto push_sources = [&](const Node& of) {
    for (const Endpoint& e : of.inputs) pending.push_back(e.node);
    pending.insert(pending.end(), of.controls.begin(), of.controls.end());
  };
  std::set<int> seen;
  push_sources(n);
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    if (!seen.insert(id).second) continue;
    if (draft.segment_of[PlanDraft::at(id)] == static_cast<int>(segment))
      fn(id);
    else if (draft.segment_of[PlanDraft::at(id)] < 0 && draft.arrival_of[PlanDraft::at(id)] < 0)
      push_sources(draft.graph.node(id));
  }
}

bool worth_parallel(const PlanDraft& draft, std::size_t segment, const std::vector<std::uint32_t>& position) {
  const std::vector<int>& members = draft.members[segment];
  std::vector<double> done(members.size(), 0);  // end time of each, with unlimited threads
  double total = 0, longest = 0;
  for (int id : members) total += estimated_cost_ns(draft.graph, draft.graph.node(id));
  if (total < kParallelNs || total < kParallelNodeNs * static_cast<double>(members.size())) return false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Node& n = draft.graph.node(members[i]);
    double start = 0;
    each_member_before(draft, segment, n, [&](int id) { start = std::max(start, done[position[PlanDraft::at(id)]]); });
    done[i] = start + estimated_cost_ns(draft.graph, n);
    longest = std::max(longest, done[i]);
  }
  return total >= kParallelWidth * longest;
}

// In addition to the graph's edges: users of a variable keep the order of the plan, except readers among themselves.
NodeOrder node_order(const PlanDraft& draft, std::size_t segment, const std::vector<std::uint32_t>& position) {
  const std::vector<int>& members = draft.members[segment];
  struct Users {
    int writer = -1;
    std::vector<std::uint32_t> readers;  // since the last other use
  };
  std::map<std::uint32_t, Users> variables;
  std::vector<std::set<std::uint32_t>> before(members.size());
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    const Node& n = draft.graph.node(members[i]);
    each_member_before(draft, segment, n, [&](int id) { before[i].insert(position[PlanDraft::at(id)]); });
    for (const Endpoint& e : n.inputs) {
      const InputRef ref = draft.values[PlanDraft::at(e.node)][PlanDraft::at(e.index)];
      if (ref.kind != InputRef::Kind::variable) continue;
      Users& users = variables[ref.index];
      if (users.writer >= 0 && users.writer != static_cast<int>(i))
        before[i].insert(static_cast<std::uint32_t>(users.writer));
      if (n.op->reads_only) {
        users.readers.push_back(i);
        continue;
      }
      for (std::uint32_t reader : users.readers)
        if (reader != i) before[i].insert(reader);
      users = {static_cast<int>(i), {}};
    }
  }
  NodeOrder order;
  std::vector<std::vector<std::uint32_t>> after(members.size());
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    order.predecessors.push_back(static_cast<std::uint32_t>(before[i].size()));
    for (std::uint32_t b : before[i]) after[b].push_back(i);
  }
  for (const auto& list : after) {
    order.first_successor.push_back(static_cast<std::uint32_t>(order.successors.size()));
    order.successors.insert(order.successors.end(), list.begin(), list.end());
  }
  order.first_successor.push_back(static_cast<std::uint32_t>(order.successors.size()));
  return order;
}

// For segments worth running in parallel: which node waits for which.
void order_nodes(PlanDraft& draft) {
  std::vector<std::uint32_t> position(PlanDraft::at(draft.graph.size()), 0);  // in its segment
  for (std::size_t s = 0; s < draft.members.size(); ++s) {
    const std::vector<int>& members = draft.members[s];
    if (draft.plan->segments[s].loops) continue;
    for (std::uint32_t i = 0; i < members.size(); ++i) position[PlanDraft::at(members[i])] = i;
    if (!worth_parallel(draft, s, position)) continue;
    draft.plan->segments[s].order = static_cast<std::int32_t>(draft.plan->orders.size());
    draft.plan->orders.push_back(node_order(draft, s, position));
  }
}

// A slot read in only one segment has a known last use if its nodes run in order; others are counted.
void mark_last_uses(Plan& plan) {
  std::vector<int> segment_reading(plan.num_slots, -1);
  std::vector<std::uint16_t> uses(plan.num_slots, 0);
  constexpr int kSeveral = -2;
  const auto each_input = [&](auto&& fn) {
    for (std::size_t s = 0; s < plan.segments.size(); ++s)
      for (std::uint32_t i = 0; i < plan.segments[s].num_nodes; ++i) {
        const PlanNode& node = plan.nodes[plan.segments[s].first_node + i];
        for (std::uint32_t k = 0; k < node.num_inputs; ++k) fn(static_cast<int>(s), plan.inputs[node.first_input + k]);
      }
  };
  each_input([&](int s, const InputRef& ref) {
    if (ref.kind != InputRef::Kind::slot) return;
    int& reading = segment_reading[ref.index];
    const bool in_order = plan.segments[PlanDraft::at(s)].order < 0;
    reading = reading == -1 || (reading == s && in_order) ? s : kSeveral;
    if (uses[ref.index] != 0xffff) ++uses[ref.index];
  });
  plan.slot_uses.assign(plan.num_slots, 0);
  plan.slot_is_read.resize(plan.num_slots);
  for (std::size_t s = 0; s < uses.size(); ++s) plan.slot_is_read[s] = uses[s] > 0;
  std::vector<InputRef*> last(plan.num_slots, nullptr);
  each_input([&](int, InputRef& ref) {
    if (ref.kind != InputRef::Kind::slot) return;
    if (segment_reading[ref.index] != kSeveral) {
      last[ref.index] = &ref;
    } else if (uses[ref.index] != 0xffff) {
      ref.kind = InputRef::Kind::slot_counted;
      plan.slot_uses[ref.index] = uses[ref.index];
      plan.counts_uses = true;
    }
  });
  for (std::size_t a = plan.argument_slots.size() - plan.kept_arguments; a < plan.argument_slots.size(); ++a)
    if (plan.argument_slots[a] != Plan::kNoSlot) last[plan.argument_slots[a]] = nullptr;
  for (const InputRef& result : plan.results)  // read after the last node
    if (result.kind == InputRef::Kind::slot) {
      last[result.index] = nullptr;
      plan.slot_is_read[result.index] = true;
    }
  for (InputRef* ref : last)
    if (ref) ref->kind = InputRef::Kind::slot_last;
}

bool has_loops(const Plan& plan, const Segment& segment) {
  const auto loops = [](const Plan& body) { return std::ranges::any_of(body.segments, &Segment::loops); };
  for (std::uint32_t i = segment.first_node; i < segment.first_node + segment.num_nodes; ++i) {
    const PlanNode& node = plan.nodes[i];
    if (node.kind == PlanNode::Kind::loop) return true;
    if (node.kind != PlanNode::Kind::branch) continue;
    const Plan::Branch& branch = plan.branches[node.target];
    if (loops(*branch.then_plan) || loops(*branch.else_plan)) return true;
  }
  return false;
}

}  // namespace

void order_and_place(PlanDraft& draft) {
  for (Segment& segment : draft.plan->segments) segment.loops = has_loops(*draft.plan, segment);
  if (!draft.function) {
    order_nodes(draft);
    mark_flushes(draft);
  }
  mark_last_uses(*draft.plan);
  draft.plan->memory = plan_memory(*draft.plan, slot_types(draft), draft.reuse);
}

}  // namespace troupe
