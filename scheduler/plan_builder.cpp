#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "scheduler/plan.hpp"

namespace troupe {
namespace {

using SegmentKey = std::vector<int>;  // sorted ids of the arrivals above

// Builds the plan of one partition, or of a function body.
class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, const KernelRegistry& kernels, const std::string& device_type, const std::string& device_name,
              int depth)
      : graph_(graph), kernels_(kernels), device_type_(device_type), depth_(depth), plan_(std::make_unique<Plan>()) {
    plan_->device = device_name;
    if (depth > 32) invalid_argument("functions are nested more than 32 deep");
  }

  std::unique_ptr<Plan> build(const Function* function) {
    order_ = graph_.topological_order();
    place_values();
    form_segments();
    emit_nodes();
    if (function) bind_function(*function);
    mark_last_uses();
    return std::move(plan_);
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  // Slots, constants and variables of all outputs.
  void place_values() {
    values_.resize(at(graph_.size()));
    for (int id : order_) {
      const Node& n = graph_.node(id);
      auto& values = values_[at(id)];
      const std::string& op = n.op->name;
      if (op == "Const") {
        values = {{InputRef::Kind::constant, static_cast<std::uint32_t>(plan_->constants.size())}};
        plan_->constants.push_back(n.attributes.tensor("value"));
      } else if (op == "Variable" || (op == "Arg" && n.output_types[0] == DType::resource)) {
        values = {{InputRef::Kind::variable, static_cast<std::uint32_t>(plan_->variables.size())}};
        const bool owned = op == "Variable";
        plan_->variables.push_back({n.name, owned ? n.attributes.dtype("dtype") : DType::invalid, n.output_shapes[0]});
      } else {
        for (std::size_t i = 0; i < n.output_types.size(); ++i)
          values.push_back({InputRef::Kind::slot, plan_->num_slots++});
      }
      if (op == "Placeholder") invalid_argument("Placeholder '{}' must be fed", n.name);
      if (op == "Feed") {
        const auto index = static_cast<std::size_t>(n.attributes.integer("index"));
        if (index > 1'000'000) invalid_argument("Feed '{}': index {}", n.name, index);
        if (plan_->feed_slots.size() <= index) plan_->feed_slots.resize(index + 1, Plan::kNoSlot);
        plan_->feed_slots[index] = values[0].index;
      }
    }
  }

  // Does the node do anything when the plan runs?
  static bool runs(const Node& n) {
    const std::string& op = n.op->name;
    return op != "Const" && op != "Variable" && op != "Arg" && op != "Feed" && n.op->kind != OpKind::arrival;
  }

  void form_segments() {
    segment_of_.assign(at(graph_.size()), -1);
    std::vector<int> set_of(at(graph_.size()), 0);  // interned set of arrivals above
    std::map<SegmentKey, int> interned{{{}, 0}};
    std::vector<SegmentKey> sets{{}};
    std::map<std::pair<int, int>, int> unions;
    const auto intern = [&](SegmentKey key) {
      const auto [it, fresh] = interned.emplace(key, static_cast<int>(sets.size()));
      if (fresh) sets.push_back(std::move(key));
      return it->second;
    };
    const auto join = [&](int a, int b) {
      if (a == b || b == 0) return a;
      if (a == 0) return b;
      const auto [it, fresh] = unions.try_emplace(std::minmax(a, b), 0);
      if (fresh) {
        SegmentKey merged;
        std::ranges::set_union(sets[at(a)], sets[at(b)], std::back_inserter(merged));
        it->second = intern(std::move(merged));
      }
      return it->second;
    };
    std::map<int, int> segment_of_set;
    for (int id : order_) {
      const Node& n = graph_.node(id);
      int set = 0;
      for (const Endpoint& e : n.inputs) set = join(set, set_of[at(e.node)]);
      for (int c : n.controls) set = join(set, set_of[at(c)]);
      if (n.op->kind == OpKind::arrival) {
        if (depth_ > 0) invalid_argument("{} '{}': a function body cannot receive", n.op->name, n.name);
        set = join(set, intern({id}));
        add_arrival(n);
      }
      set_of[at(id)] = set;
      if (!runs(n)) continue;
      const auto [it, fresh] = segment_of_set.try_emplace(set, static_cast<int>(members_.size()));
      if (fresh) members_.emplace_back();
      segment_of_[at(id)] = it->second;
      members_[at(it->second)].push_back(id);
    }
  }

  void add_arrival(const Node& n) {
    Arrival a;
    a.is_pull = n.op->name == "Pull";
    a.slot = values_[at(n.id)][0].index;
    a.dtype = n.output_types[0];
    a.shape = n.output_shapes[0];
    a.name = n.name;
    if (a.is_pull) {
      a.slice = static_cast<std::uint32_t>(n.attributes.integer("slice"));
      a.shard = static_cast<std::uint32_t>(n.attributes.integer("shard"));
      a.edge = EdgeId{0x80000000u | static_cast<std::uint32_t>(plan_->arrivals.size())};
      a.from = fmt::format("shard {}", a.shard);
    } else {
      a.edge = EdgeId{static_cast<std::uint32_t>(n.attributes.integer("edge"))};
      a.from = n.attributes.string("from");
    }
    arrival_of_.emplace(n.id, static_cast<std::uint32_t>(plan_->arrivals.size()));
    plan_->arrivals.push_back(std::move(a));
  }

  void emit_nodes() {
    // What each segment waits for. Nodes that do nothing (Const, Feed) are always there; behind an arrival stands its own
    // entry; an arrival's own predecessors are waited for by its consumers.
    for (std::size_t s = 0; s < members_.size(); ++s) {
      Segment segment;
      segment.first_node = static_cast<std::uint32_t>(plan_->nodes.size());
      segment.num_nodes = static_cast<std::uint32_t>(members_[s].size());
      for (int id : members_[s]) emit(graph_.node(id));
      plan_->segments.push_back(std::move(segment));
    }
    for (std::size_t s = 0; s < members_.size(); ++s) {
      std::set<std::uint32_t> arrivals;
      std::set<int> before;
      for (int id : members_[s]) {
        std::vector<int> pending;
        for (const Endpoint& e : graph_.node(id).inputs) pending.push_back(e.node);
        pending.insert(pending.end(), graph_.node(id).controls.begin(), graph_.node(id).controls.end());
        collect(std::move(pending), static_cast<int>(s), arrivals, before);
      }
      auto& segment = plan_->segments[s];
      segment.waits = static_cast<std::uint32_t>(arrivals.size() + before.size());
      for (std::uint32_t a : arrivals) plan_->arrivals[a].segments.push_back(static_cast<std::uint32_t>(s));
      for (int b : before) plan_->segments[at(b)].successors.push_back(static_cast<std::uint32_t>(s));
    }
  }

  // Looks through nodes that do not run to the arrivals and segments behind them.
  void collect(std::vector<int> pending, int own, std::set<std::uint32_t>& arrivals, std::set<int>& before) const {
    while (!pending.empty()) {
      const int id = pending.back();
      pending.pop_back();
      if (const int segment = segment_of_[at(id)]; segment >= 0) {
        if (segment != own) before.insert(segment);
        continue;
      }
      if (const auto it = arrival_of_.find(id); it != arrival_of_.end()) arrivals.insert(it->second);
      const Node& n = graph_.node(id);
      for (const Endpoint& e : n.inputs) pending.push_back(e.node);
      pending.insert(pending.end(), n.controls.begin(), n.controls.end());
    }
  }

  void emit(const Node& n) {
    PlanNode p;
    p.first_input = static_cast<std::uint32_t>(plan_->inputs.size());
    p.num_inputs = static_cast<std::uint16_t>(n.inputs.size());
    p.num_outputs = static_cast<std::uint16_t>(n.output_types.size());
    if (n.inputs.size() > 0xffff || n.output_types.size() > 0xffff)
      invalid_argument("{} '{}' has more than 65535 inputs or outputs", n.op->name, n.name);
    for (const Endpoint& e : n.inputs) plan_->inputs.push_back(values_[at(e.node)][at(e.index)]);
    if (!values_[at(n.id)].empty()) p.first_output = values_[at(n.id)][0].index;
    p.name = static_cast<std::uint32_t>(plan_->names.size());
    p.hash = original_name_hash(n);
    plan_->names.push_back({n.name, n.op->name});
    set_target(p, n);
    plan_->nodes.push_back(p);
  }

  void set_target(PlanNode& p, const Node& n) {
    const std::string& op = n.op->name;
    const auto next = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
    if (op == "Send") {
      p.kind = PlanNode::Kind::send;
      p.target = next(plan_->sends);
      plan_->sends.push_back({EdgeId{static_cast<std::uint32_t>(n.attributes.integer("edge"))}, n.attributes.string("to")});
    } else if (op == "Push" || op == "PushSparse") {
      p.kind = op == "Push" ? PlanNode::Kind::push : PlanNode::Kind::push_sparse;
      p.target = next(plan_->pushes);
      plan_->pushes.push_back({static_cast<std::uint32_t>(n.attributes.integer("slice")),
                               static_cast<std::uint32_t>(n.attributes.integer("shard"))});
    } else if (op == "Fetch") {
      p.kind = PlanNode::Kind::fetch;
      p.target = static_cast<std::uint32_t>(n.attributes.integer("index"));
      plan_->fetch_indices.push_back(p.target);
    } else if (op == "If") {
      p.kind = PlanNode::Kind::branch;
      p.target = next(plan_->branches);
      plan_->branches.push_back({branch(n, "then_branch"), branch(n, "else_branch")});
    } else {
      p.kind = PlanNode::Kind::kernel;
      p.target = next(plan_->kernels);
      std::vector<DType> in;
      for (const Endpoint& e : n.inputs) in.push_back(graph_.dtype(e));
      try {
        plan_->kernels.push_back(kernels_.get(op, device_type_, n.kernel_type())({n.name, n.attributes, in, n.output_types}));
      } catch (const Error& error) {
        throw error.within(fmt::format("{} '{}' on {}", op, n.name, plan_->device));
      }
    }
  }

  std::unique_ptr<const Plan> branch(const Node& n, const char* attr) {
    const std::string& name = n.attributes.get<FunctionName>(attr).value;
    const Function* function = graph_.function(name);
    if (!function) fail(Code::not_found, "If '{}': there is no function '{}'", n.name, name);
    if (function->arguments.size() + 1 != n.inputs.size() || function->results.size() != n.output_types.size())
      invalid_argument("If '{}': function '{}' takes {} arguments and gives {} results; the node has {} and {}", n.name, name,
                       function->arguments.size(), function->results.size(), n.inputs.size() - 1, n.output_types.size());
    // A function's own library is that of its body; bodies built inside a graph share the graph's.
    return PlanBuilder(*function->body, kernels_, device_type_, plan_->device, depth_ + 1).build(function);
  }

  void bind_function(const Function& function) {
    for (const Endpoint& e : function.arguments) {
      const InputRef ref = values_[at(e.node)][0];
      const bool variable = ref.kind == InputRef::Kind::variable;
      plan_->argument_slots.push_back(variable ? Plan::kNoSlot : ref.index);
      plan_->argument_variables.push_back(variable ? ref.index : Plan::kNoSlot);
    }
    for (const Endpoint& e : function.results) plan_->results.push_back(values_[at(e.node)][at(e.index)]);
    if (plan_->segments.empty()) plan_->segments.emplace_back();
  }

  // A slot read in one segment only has a last use known now; one read in several is counted while it runs.
  void mark_last_uses() {
    std::vector<int> segment_reading(plan_->num_slots, -1);
    std::vector<std::uint16_t> uses(plan_->num_slots, 0);
    constexpr int kSeveral = -2;
    const auto each_input = [&](auto&& fn) {
      for (std::size_t s = 0; s < plan_->segments.size(); ++s)
        for (std::uint32_t i = 0; i < plan_->segments[s].num_nodes; ++i) {
          const PlanNode& node = plan_->nodes[plan_->segments[s].first_node + i];
          for (std::uint32_t k = 0; k < node.num_inputs; ++k) fn(static_cast<int>(s), plan_->inputs[node.first_input + k]);
        }
    };
    each_input([&](int s, const InputRef& ref) {
      if (ref.kind != InputRef::Kind::slot) return;
      int& reading = segment_reading[ref.index];
      reading = reading == -1 || reading == s ? s : kSeveral;
      if (uses[ref.index] != 0xffff) ++uses[ref.index];
    });
    plan_->slot_uses.assign(plan_->num_slots, 0);
    std::vector<InputRef*> last(plan_->num_slots, nullptr);
    each_input([&](int, InputRef& ref) {
      if (ref.kind != InputRef::Kind::slot) return;
      if (segment_reading[ref.index] != kSeveral) {
        last[ref.index] = &ref;
      } else if (uses[ref.index] != 0xffff) {
        ref.kind = InputRef::Kind::slot_counted;
        plan_->slot_uses[ref.index] = uses[ref.index];
      }
    });
    for (const InputRef& result : plan_->results)  // read after the last node
      if (result.kind == InputRef::Kind::slot) last[result.index] = nullptr;
    for (InputRef* ref : last)
      if (ref) ref->kind = InputRef::Kind::slot_last;
  }

  const Graph& graph_;
  const KernelRegistry& kernels_;
  const std::string& device_type_;
  int depth_;
  std::unique_ptr<Plan> plan_;
  std::vector<int> order_;
  std::vector<std::vector<InputRef>> values_;
  std::vector<int> segment_of_;
  std::vector<std::vector<int>> members_;
  std::unordered_map<int, std::uint32_t> arrival_of_;
};

}  // namespace

std::unique_ptr<const Plan> build_plan(const Graph& partition, const KernelRegistry& kernels, const std::string& device_type,
                                       const std::string& device_name) {
  return PlanBuilder(partition, kernels, device_type, device_name, 0).build(nullptr);
}

std::uint64_t original_name_hash(const Node& node) {
  const std::string& text =
      node.attributes.has("_original_name") ? node.attributes.string("_original_name") : node.name;
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace troupe
