// The first phase of building a plan: the location of values.
#include <algorithm>
#include <set>
#include <utility>

#include <troupe/scheduler/plan/plan_draft.hpp>

namespace troupe {
namespace {

// Checks which nodes may be in a partition only, and which in a function only.
void check_place(const PlanDraft& draft, const Node& n) {
  const OpDef& op = *n.op;
  if (op.role == OpRole::placeholder) invalid_argument("{} '{}' must be fed", op.name, n.name);
  if (draft.function && op.is_boundary())
    invalid_argument("{} '{}': not allowed in the body of function '{}'; pass it as an argument", op.name, n.name,
                     draft.function->name);
  if (!draft.function && op.role == OpRole::argument)
    invalid_argument("{} '{}' is outside a function", op.name, n.name);
  const bool may_be_variable = op.role == OpRole::variable || op.role == OpRole::argument;
  if (!may_be_variable && std::ranges::count(n.output_types, DType::resource) > 0)
    invalid_argument("{} '{}' returns a variable; only a Variable or an argument may", op.name, n.name);
}

void check_signature(const PlanDraft& draft) {
  std::set<int> arguments;
  for (const Endpoint& e : draft.function->arguments)
    if (e.node < 0 || e.node >= draft.graph.size() || draft.graph.node(e.node).op->role != OpRole::argument ||
        !arguments.insert(e.node).second)
      invalid_argument("function '{}': its arguments must be the Arg nodes of its body, each once",
                       draft.function->name);
  for (int id : draft.order)
    if (draft.graph.node(id).op->role == OpRole::argument && !arguments.contains(id))
      invalid_argument("function '{}': Arg '{}' is not among its arguments", draft.function->name,
                       draft.graph.node(id).name);
  for (const Endpoint& e : draft.function->results) {
    if (e.node < 0 || e.node >= draft.graph.size() || e.index < 0 ||
        PlanDraft::at(e.index) >= draft.graph.node(e.node).output_types.size())
      invalid_argument("function '{}': a result is not an output of its body", draft.function->name);
    if (draft.graph.dtype(e) == DType::resource)
      invalid_argument("function '{}': a result cannot be a variable ('{}')", draft.function->name,
                       draft.graph.node(e.node).name);
  }
}

void add_feed(Plan& plan, const Node& n, std::uint32_t slot) {
  const std::size_t index = PlanDraft::number(n, "index");
  if (index > 1'000'000) invalid_argument("Feed '{}': index {} is too large", n.name, index);
  if (plan.feed_slots.size() <= index) plan.feed_slots.resize(index + 1, Plan::kNoSlot);
  if (std::exchange(plan.feed_slots[index], slot) != Plan::kNoSlot)
    invalid_argument("Feed '{}': another node has index {}", n.name, index);
}

}  // namespace

void place_values(PlanDraft& draft) {
  for (const int id : draft.order) check_place(draft, draft.graph.node(id));
  if (draft.function) check_signature(draft);
  draft.values.resize(PlanDraft::at(draft.graph.size()));
  for (int id : draft.order) {
    const Node& n = draft.graph.node(id);
    auto& values = draft.values[PlanDraft::at(id)];
    const OpRole role = n.op->role;
    if (role == OpRole::constant) {
      values = {{InputRef::Kind::constant, static_cast<std::uint32_t>(draft.plan->constants.size())}};
      draft.plan->constants.push_back(n.attributes.tensor("value"));
    } else if (role == OpRole::variable || (role == OpRole::argument && n.output_types[0] == DType::resource)) {
      values = {{InputRef::Kind::variable, static_cast<std::uint32_t>(draft.plan->variables.size())}};
      VariableDecl decl{n.name, DType::invalid, n.output_shapes[0]};
      if (n.attributes.has("T"))
        decl.dtype = role == OpRole::variable ? n.attributes.dtype("T") : DType::invalid;
      else if (role == OpRole::variable)
        decl = {n.name, DType::invalid, n.output_shapes[0], n.op->name, n.attributes};
      draft.plan->variables.push_back(std::move(decl));
    } else {
      for (std::size_t i = 0; i < n.output_types.size(); ++i)
        values.push_back({InputRef::Kind::slot, draft.plan->num_slots++});
    }
    if (role == OpRole::feed) add_feed(*draft.plan, n, values[0].index);
  }
}

}  // namespace troupe
