#include "troupe/scheduler/plan/plan.hpp"

#include <algorithm>

namespace troupe {
namespace {

std::string describe(const Plan& plan, const InputRef& ref) {
  switch (ref.kind) {
    case InputRef::Kind::slot:
      return fmt::format("s{}", ref.index);
    case InputRef::Kind::slot_last:
      return fmt::format("s{}!", ref.index);
    case InputRef::Kind::slot_counted:
      return fmt::format("s{}~", ref.index);
    case InputRef::Kind::constant:
      return fmt::format("c{}", ref.index);
    case InputRef::Kind::variable:
      return plan.variables[ref.index].name;
  }
  return "?";
}

std::string indented(const std::string& text) {
  std::string out = "    ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

void dump_node(const Plan& plan, const PlanNode& node, std::string& text) {
  text += fmt::format("  {} {}", plan.info(node).op, plan.info(node).name);
  for (std::uint32_t i = 0; i < node.num_inputs; ++i)
    text += (i == 0 ? "(" : ", ") + describe(plan, plan.inputs[node.first_input + i]);
  if (node.num_inputs > 0) text += ")";
  for (std::uint32_t i = 0; i < node.num_outputs; ++i) {
    const std::uint32_t slot = node.first_output + i;
    text += fmt::format("{}s{}", i == 0 ? " -> " : ", ", slot);
    if (plan.memory.block_of[slot] != MemoryPlan::kNone) text += fmt::format(":b{}", plan.memory.block_of[slot]);
  }
  if (node.kind == PlanNode::Kind::send)
    text += fmt::format(" edge {} to {}", plan.sends[node.target].edge.value, plan.sends[node.target].to);
  if (node.kind == PlanNode::Kind::push || node.kind == PlanNode::Kind::push_sparse)
    text += fmt::format(" slice {} to shard {}", plan.pushes[node.target].slice, plan.pushes[node.target].shard);
  if (node.kind == PlanNode::Kind::ask_rows)
    text +=
        fmt::format(" slice {} of shard {}", plan.asks[node.target].slice.slice, plan.asks[node.target].slice.shard);
  if (node.kind == PlanNode::Kind::call)
    text += fmt::format(" {}, answered on edge {}", name(plan.calls[node.target].operation),
                        plan.calls[node.target].edge.value);
  if (node.kind == PlanNode::Kind::contribute)
    text += fmt::format(" {} in channel {}", name(plan.contributions[node.target].reduction),
                        plan.contributions[node.target].channel);
  if (node.flushes) text += ", flushed";
  text += "\n";
  if (node.kind == PlanNode::Kind::branch) {
    text += "    then:\n" + indented(plan.branches[node.target].then_plan->dump());
    text += "    else:\n" + indented(plan.branches[node.target].else_plan->dump());
  }
  if (node.kind == PlanNode::Kind::loop) text += "    body:\n" + indented(plan.loops[node.target].body->dump());
}

}  // namespace

bool Plan::is_kept(const InputRef& ref) const {
  return ref.is_slot() && std::find(argument_slots.end() - static_cast<std::ptrdiff_t>(kept_arguments),
                                    argument_slots.end(), ref.index) != argument_slots.end();
}

std::size_t Plan::kernel_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes, [](const PlanNode& n) { return n.kind == PlanNode::Kind::kernel; }));
}

std::string Plan::summary() const {
  std::string text = fmt::format("plan for {}: {} nodes, {} segments, {} slots, {} constants\n", device, nodes.size(),
                                 segments.size(), num_slots, constants.size());
  text += fmt::format(
      "memory: peak {} bytes in {} blocks for {} slots, {} of them in place; {} slots of unknown size; values of {} "
      "bytes, of which {} live at once\n",
      memory.peak_bytes, memory.block_bytes.size(), memory.planned_slots, memory.in_place_slots, memory.unknown_slots,
      memory.value_bytes, memory.live_bytes);
  return text;
}

std::string Plan::dump() const {
  std::string text = summary();
  for (const Arrival& a : arrivals) {
    text += fmt::format("arrival {} -> s{} from {}, awaited by segments", a.name, a.slot, a.from);
    for (std::uint32_t s : a.segments) text += fmt::format(" {}", s);
    text += "\n";
  }
  for (std::size_t s = 0; s < segments.size(); ++s) {
    text += fmt::format("segment {} waits for {}", s, segments[s].waits);
    for (std::uint32_t next : segments[s].successors)
      text += fmt::format("{}{}", next == segments[s].successors.front() ? ", then " : " ", next);
    if (segments[s].order >= 0) text += ", nodes in parallel";
    text += "\n";
    for (std::uint32_t i = 0; i < segments[s].num_nodes; ++i) dump_node(*this, nodes[segments[s].first_node + i], text);
  }
  return text;
}

}  // namespace troupe
