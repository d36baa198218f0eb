// The third phase of building a plan: the kernel or destination of each node.
#include <algorithm>
#include <set>
#include <utility>

#include <troupe/scheduler/plan/plan_draft.hpp>

namespace troupe {
namespace {

class NodeEmitter {
 public:
  NodeEmitter(PlanDraft& draft, const FunctionPlan& function)
      : draft_(draft), plan_(*draft.plan), function_(function) {}

  void emit_all() {
    for (const std::vector<int>& members : draft_.members)
      for (const int id : members) emit(draft_.graph.node(id));
  }

 private:
  static std::size_t at(int id) { return PlanDraft::at(id); }

  void emit(const Node& n) {
    if (n.inputs.size() > 0xffff || n.output_types.size() > 0xffff)
      invalid_argument("{} '{}' has more than 65535 inputs or outputs", n.op->name, n.name);
    PlanNode p;
    p.first_input = static_cast<std::uint32_t>(plan_.inputs.size());
    p.num_inputs = static_cast<std::uint16_t>(n.inputs.size());
    p.num_outputs = static_cast<std::uint16_t>(n.output_types.size());
    for (const Endpoint& e : n.inputs) plan_.inputs.push_back(draft_.values[at(e.node)][at(e.index)]);
    if (!draft_.values[at(n.id)].empty()) p.first_output = draft_.values[at(n.id)][0].index;
    NodeInfo info{n.name, n.op->name, original_name_hash(n)};
    if (n.attributes.has("_slot")) info.slot = static_cast<std::int32_t>(n.attributes.integer("_slot"));
    plan_.infos.push_back(std::move(info));
    set_target(p, n);
    p.recordable =
        p.kind == PlanNode::Kind::kernel && draft_.kernels.recordable(n.op->name, draft_.device_type, n.kernel_type());
    plan_.nodes.push_back(p);
    draft_.reuse.push_back(draft_.kernels.reuse(n.op->name, draft_.device_type));
  }

  void set_target(PlanNode& p, const Node& n) {
    const auto append = [&](PlanNode::Kind kind, auto& list, auto&& value) {
      p.kind = kind;
      p.target = static_cast<std::uint32_t>(list.size());
      list.push_back(std::forward<decltype(value)>(value));
    };
    const auto push = [&](PlanNode::Kind kind) {
      append(kind, plan_.pushes, PushTarget{PlanDraft::number(n, "slice"), PlanDraft::number(n, "shard")});
    };
    switch (n.op->role) {
      case OpRole::send:
        if (!n.inputs.empty() && draft_.graph.dtype(n.inputs[0]) == DType::resource)
          return append(
              PlanNode::Kind::call, plan_.calls,
              CallTarget{EdgeId{PlanDraft::number(n, "edge")}, parse_operation(n.attributes.string("operation"))});
        return append(PlanNode::Kind::send, plan_.sends,
                      SendTarget{EdgeId{PlanDraft::number(n, "edge")}, n.attributes.string("to")});
      case OpRole::push:
        return push(PlanNode::Kind::push);
      case OpRole::push_sparse:
        return push(PlanNode::Kind::push_sparse);
      case OpRole::ask_rows:
        return append(
            PlanNode::Kind::ask_rows, plan_.asks,
            AskTarget{{PlanDraft::number(n, "slice"), PlanDraft::number(n, "shard")}, ask_edge(PlanDraft::ask(n))});
      case OpRole::contribute:
        return append(
            PlanNode::Kind::contribute, plan_.contributions,
            ContributionTarget{PlanDraft::channel(n), parse_reduction(n.attributes.string("reduction")), n.name});
      case OpRole::fetch:
        return append(PlanNode::Kind::fetch, plan_.fetch_indices, fetch_index(n));
      case OpRole::branch:
        return append(PlanNode::Kind::branch, plan_.branches,
                      Plan::Branch{function_(n, "then_branch"), function_(n, "else_branch")});
      case OpRole::loop:
        return append(PlanNode::Kind::loop, plan_.loops, loop(n));
      default:
        return append(PlanNode::Kind::kernel, plan_.kernels, kernel(n));
    }
  }

  Plan::Loop loop(const Node& n) {
    std::shared_ptr<const Plan> body = function_(n, "body");
    Plan::Loop loop{.carried = static_cast<std::uint32_t>(n.attributes.integer("carried")),
                    .scanned = static_cast<std::uint32_t>(n.attributes.integer("scanned")),
                    .reverse = n.attributes.boolean("reverse")};
    const std::vector<InputRef>& results = body->results;
    for (std::size_t r = 0; r < results.size(); ++r) {
      const auto same = [&](const InputRef& other) { return other.is_slot() && other.index == results[r].index; };
      const bool only = std::ranges::count_if(results, same) == 1;
      loop.moved.push_back(results[r].is_slot() && only && !body->is_kept(results[r]));
      loop.made.push_back(loop.moved[r] &&
                          std::ranges::find(body->argument_slots, results[r].index) == body->argument_slots.end());
    }
    loop.body = std::move(body);
    return loop;
  }

  std::uint32_t fetch_index(const Node& n) {
    const std::uint32_t index = PlanDraft::number(n, "index");
    if (!fetched_.insert(index).second) invalid_argument("Fetch '{}': another node has index {}", n.name, index);
    return index;
  }

  Kernel kernel(const Node& n) const {
    std::vector<DType> in;
    std::vector<const Tensor*> constants;
    for (const Endpoint& e : n.inputs) {
      in.push_back(draft_.graph.dtype(e));
      const InputRef& value = draft_.values[at(e.node)][at(e.index)];
      constants.push_back(value.kind == InputRef::Kind::constant ? &plan_.constants[value.index] : nullptr);
    }
    try {
      return draft_.kernels.get(n.op->name, draft_.device_type,
                                n.kernel_type())({n.name, n.attributes, in, n.output_types, constants});
    } catch (...) {
      throw current_error().within(fmt::format("{} '{}' on {}", n.op->name, n.name, plan_.device));
    }
  }

  PlanDraft& draft_;
  Plan& plan_;
  const FunctionPlan& function_;
  std::set<std::uint32_t> fetched_;
};

}  // namespace

void emit_nodes(PlanDraft& draft, const FunctionPlan& function) { NodeEmitter(draft, function).emit_all(); }

}  // namespace troupe
