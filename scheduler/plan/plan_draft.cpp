#include "troupe/scheduler/plan/plan_draft.hpp"

#include <troupe/scheduler/plan/contribution_order.hpp>

namespace troupe {
namespace {

constexpr std::uint32_t kMaxChannels = 1u << 20;
constexpr std::uint32_t kMaxAsks = 1u << 20;

}  // namespace

PlanDraft::PlanDraft(const Graph& graph, const Function* function, const KernelRegistry& kernels,
                     const std::string& device_type, const std::string& device_name)
    : graph(graph),
      function(function),
      kernels(kernels),
      device_type(device_type),
      plan(std::make_unique<Plan>()),
      order(contributions_first(graph, graph.topological_order())) {
  plan->device = device_name;
}

std::uint32_t PlanDraft::number(const Node& n, const char* attribute) {
  const std::int64_t value = n.attributes.integer(attribute);
  if (value < 0 || value >= std::int64_t{kFirstPullEdge})
    invalid_argument("{} '{}': attribute '{}' is {}; it must be at least 0 and below 2^31", n.op->name, n.name,
                     attribute, value);
  return static_cast<std::uint32_t>(value);
}

std::uint32_t PlanDraft::channel(const Node& n) {
  const std::uint32_t value = number(n, "channel");
  if (value >= kMaxChannels)
    invalid_argument("{} '{}': channel {} is out of range; there are {} channels", n.op->name, n.name, value,
                     kMaxChannels);
  return value;
}

std::uint32_t PlanDraft::ask(const Node& n) {
  const std::uint32_t value = number(n, "ask");
  if (value >= kMaxAsks)
    invalid_argument("{} '{}': ask {} is out of range; there are {}", n.op->name, n.name, value, kMaxAsks);
  return value;
}

}  // namespace troupe
