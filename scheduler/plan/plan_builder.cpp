// Compiles a partition to a plan (plan.hpp), and the functions that it runs.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <troupe/scheduler/plan/arrival_sets.hpp>
#include <troupe/scheduler/plan/contribution_order.hpp>
#include <troupe/scheduler/plan/cost.hpp>
#include <troupe/scheduler/plan/departures.hpp>
#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {
namespace {

// Functions compiled so far in one build, so that one used in several places is compiled once. Also bounds nesting and
// the size that nesting expands to: a small graph could otherwise describe an enormous one.
struct FunctionPlans {
  PlaceConstant place;  // may be null
  struct Entry {
    std::shared_ptr<const Plan> plan;  // null while it is being compiled
    int height = 0;                    // functions nested in it
    std::size_t expanded_nodes = 0;    // with those of all its branches
  };
  using Key = std::tuple<const Graph*, std::vector<Endpoint>, std::vector<Endpoint>>;
  std::map<Key, Entry> entries;
};
constexpr std::int64_t kFirstPullEdge = 0x80000000;  // edges of the graph are numbered below it
constexpr std::uint32_t kMaxChannels = 1u << 20;
constexpr int kMaxNesting = 32;
constexpr std::size_t kMaxExpandedNodes = 10'000'000;

// When it pays to run the nodes of a segment side by side: there is work for many wakes of a thread, which take some 10
// us each; the longest path through it is much shorter than all of it; and a node is worth passing between threads.
constexpr double kParallelNs = 200'000;
constexpr double kParallelWidth = 1.5;
constexpr double kParallelNodeNs = 1'000;

// Builds the plan of one partition, or of a function body.
class PlanBuilder {
 public:
  // `function`: null for a partition. `depth`: functions around it.
  PlanBuilder(const Graph& graph, const Function* function, const KernelRegistry& kernels,
              const std::string& device_type, const std::string& device_name, FunctionPlans& functions, int depth)
      : graph_(graph),
        function_(function),
        kernels_(kernels),
        device_type_(device_type),
        functions_(functions),
        depth_(depth),
        plan_(std::make_unique<Plan>()) {
    plan_->device = device_name;
  }

  std::unique_ptr<Plan> build() {
    order_ = contributions_first(graph_, graph_.topological_order());
    for (int id : order_) check_place(graph_.node(id));
    if (function_) check_signature();
    place_values();
    form_segments();
    emit_nodes();
    expanded_nodes_ += plan_->nodes.size();
    if (function_) bind_function();
    if (!function_) order_nodes();
    if (!function_) mark_flushes();
    mark_last_uses();
    plan_->memory = plan_memory(*plan_, slot_types(), reuse_);
    if (functions_.place)
      for (Tensor& constant : plan_->constants) constant = functions_.place(constant);
    return std::move(plan_);
  }

  int height() const { return height_; }                          // functions nested in it
  std::size_t expanded_nodes() const { return expanded_nodes_; }  // with those of all its branches

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  // What may stand in a partition only, and what in a function only.
  void check_place(const Node& n) const {
    const OpDef& op = *n.op;
    if (op.role == OpRole::placeholder) invalid_argument("{} '{}' must be fed", op.name, n.name);
    if (function_ && op.is_boundary())
      invalid_argument("{} '{}': the body of function '{}' cannot hold it; pass it as an argument", op.name, n.name,
                       function_->name);
    if (!function_ && op.role == OpRole::argument)
      invalid_argument("{} '{}' stands outside of a function", op.name, n.name);
    const bool may_be_variable = op.role == OpRole::variable || op.role == OpRole::argument;
    if (!may_be_variable && std::ranges::count(n.output_types, DType::resource) > 0)
      invalid_argument("{} '{}' returns a variable; only a Variable or an argument can be one", op.name, n.name);
  }

  void check_signature() const {
    std::set<int> arguments;
    for (const Endpoint& e : function_->arguments)
      if (e.node < 0 || e.node >= graph_.size() || graph_.node(e.node).op->role != OpRole::argument ||
          !arguments.insert(e.node).second)
        invalid_argument("function '{}': its arguments must be the Arg nodes of its body, each once", function_->name);
    for (int id : order_)
      if (graph_.node(id).op->role == OpRole::argument && !arguments.contains(id))
        invalid_argument("function '{}': Arg '{}' is not among its arguments", function_->name, graph_.node(id).name);
    for (const Endpoint& e : function_->results) {
      if (e.node < 0 || e.node >= graph_.size() || e.index < 0 ||
          at(e.index) >= graph_.node(e.node).output_types.size())
        invalid_argument("function '{}': a result is no output of its body", function_->name);
      if (graph_.dtype(e) == DType::resource)
        invalid_argument("function '{}': a result cannot be a variable ('{}')", function_->name,
                         graph_.node(e.node).name);
    }
  }

  // Slots, constants and variables of all outputs.
  void place_values() {
    values_.resize(at(graph_.size()));
    for (int id : order_) {
      const Node& n = graph_.node(id);
      auto& values = values_[at(id)];
      const OpRole role = n.op->role;
      if (role == OpRole::constant) {
        values = {{InputRef::Kind::constant, static_cast<std::uint32_t>(plan_->constants.size())}};
        plan_->constants.push_back(n.attributes.tensor("value"));
      } else if (role == OpRole::variable || (role == OpRole::argument && n.output_types[0] == DType::resource)) {
        values = {{InputRef::Kind::variable, static_cast<std::uint32_t>(plan_->variables.size())}};
        const DType dtype = role == OpRole::variable ? n.attributes.dtype("T") : DType::invalid;
        plan_->variables.push_back({n.name, dtype, n.output_shapes[0]});
      } else {
        for (std::size_t i = 0; i < n.output_types.size(); ++i)
          values.push_back({InputRef::Kind::slot, plan_->num_slots++});
      }
      if (role == OpRole::feed) add_feed(n, values[0].index);
    }
  }

  void add_feed(const Node& n, std::uint32_t slot) {
    const std::size_t index = number(n, "index");
    if (index > 1'000'000) invalid_argument("Feed '{}': index {}", n.name, index);
    if (plan_->feed_slots.size() <= index) plan_->feed_slots.resize(index + 1, Plan::kNoSlot);
    if (std::exchange(plan_->feed_slots[index], slot) != Plan::kNoSlot)
      invalid_argument("Feed '{}': another node has index {}", n.name, index);
  }

  // An attribute that counts something: edges, indices, slices, shards.
  static std::uint32_t number(const Node& n, const char* attribute) {
    const std::int64_t value = n.attributes.integer(attribute);
    if (value < 0 || value >= kFirstPullEdge)
      invalid_argument("{} '{}': attribute '{}' is {}; it must be at least 0 and below 2^31", n.op->name, n.name,
                       attribute, value);
    return static_cast<std::uint32_t>(value);
  }

  static std::uint32_t channel(const Node& n) {
    const std::uint32_t value = number(n, "channel");
    if (value >= kMaxChannels)
      invalid_argument("{} '{}': channel {}; the most are {}", n.op->name, n.name, value, kMaxChannels);
    return value;
  }

  // Does the node do anything when the plan runs?
  static bool runs(const Node& n) { return !n.op->is_source() && !n.op->is_arrival(); }

  // Nodes with equal sets of arrivals above them form a segment.
  void form_segments() {
    segment_of_.assign(at(graph_.size()), -1);
    arrival_of_.assign(at(graph_.size()), -1);
    std::vector<int> set_of(at(graph_.size()), ArrivalSets::kEmpty);
    ArrivalSets sets;
    std::unordered_map<int, int> segment_of_set;
    for (int id : order_) {
      const Node& n = graph_.node(id);
      int set = ArrivalSets::kEmpty;
      for (const Endpoint& e : n.inputs) set = sets.join(set, set_of[at(e.node)]);
      for (int c : n.controls) set = sets.join(set, set_of[at(c)]);
      if (n.op->is_arrival()) {
        set = sets.with(set, static_cast<std::uint32_t>(plan_->arrivals.size()));
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
    a.is_pull = n.op->role == OpRole::pull;
    a.slot = values_[at(n.id)][0].index;
    a.dtype = n.output_types[0];
    a.shape = n.output_shapes[0];
    a.name = n.name;
    if (a.is_pull) {
      a.slice = number(n, "slice");
      a.shard = number(n, "shard");
      a.from = fmt::format("shard {}", a.shard);
    } else if (n.op->role == OpRole::collect) {
      a.is_collect = true;
      a.edge = collect_edge(channel(n));
      a.from = "the ranks of the group";
      if (!edges_.insert(a.edge.value).second)
        invalid_argument("{} '{}': another node has channel {}", n.op->name, n.name, channel(n));
    } else {
      a.edge = EdgeId{number(n, "edge")};
      a.from = n.attributes.string("from");
      if (!edges_.insert(a.edge.value).second)
        invalid_argument("{} '{}': another node has edge {}", n.op->name, n.name, a.edge.value);
    }
    arrival_of_[at(n.id)] = static_cast<int>(plan_->arrivals.size());
    plan_->arrivals.push_back(std::move(a));
  }

  void emit_nodes() {
    for (const std::vector<int>& members : members_) {
      Segment segment;
      segment.first_node = static_cast<std::uint32_t>(plan_->nodes.size());
      segment.num_nodes = static_cast<std::uint32_t>(members.size());
      for (int id : members) emit(graph_.node(id));
      plan_->segments.push_back(std::move(segment));
    }
    seen_by_.assign(at(graph_.size()), -1);
    for (std::size_t s = 0; s < members_.size(); ++s) connect(static_cast<int>(s));
  }

  // What a segment waits for. Looks through nodes that do nothing (Const, Feed) to the arrivals and segments behind
  // them; behind an arrival too, for what comes may come before the arrival's own predecessors have run. Each node is
  // looked at once for each segment.
  void connect(int own) {
    Segment& segment = plan_->segments[at(own)];
    std::vector<int> pending;
    const auto push_sources = [&](const Node& n) {
      for (const Endpoint& e : n.inputs) pending.push_back(e.node);
      pending.insert(pending.end(), n.controls.begin(), n.controls.end());
    };
    std::vector<int> before;
    for (int member : members_[at(own)]) {
      push_sources(graph_.node(member));
      while (!pending.empty()) {
        const int id = pending.back();
        pending.pop_back();
        if (segment_of_[at(id)] == own || std::exchange(seen_by_[at(id)], own) == own) continue;
        if (segment_of_[at(id)] >= 0) {
          before.push_back(segment_of_[at(id)]);
          continue;
        }
        if (arrival_of_[at(id)] >= 0) {
          plan_->arrivals[at(arrival_of_[at(id)])].segments.push_back(static_cast<std::uint32_t>(own));
          ++segment.waits;
        }
        push_sources(graph_.node(id));
      }
    }
    std::ranges::sort(before);
    before.erase(std::ranges::unique(before).begin(), before.end());
    segment.waits += static_cast<std::uint32_t>(before.size());
    for (int b : before) plan_->segments[at(b)].successors.push_back(static_cast<std::uint32_t>(own));
  }

  void emit(const Node& n) {
    if (n.inputs.size() > 0xffff || n.output_types.size() > 0xffff)
      invalid_argument("{} '{}' has more than 65535 inputs or outputs", n.op->name, n.name);
    PlanNode p;
    p.first_input = static_cast<std::uint32_t>(plan_->inputs.size());
    p.num_inputs = static_cast<std::uint16_t>(n.inputs.size());
    p.num_outputs = static_cast<std::uint16_t>(n.output_types.size());
    for (const Endpoint& e : n.inputs) plan_->inputs.push_back(values_[at(e.node)][at(e.index)]);
    if (!values_[at(n.id)].empty()) p.first_output = values_[at(n.id)][0].index;
    NodeInfo info{n.name, n.op->name, original_name_hash(n)};
    if (n.attributes.has("_slot")) info.slot = static_cast<std::int32_t>(n.attributes.integer("_slot"));
    plan_->infos.push_back(std::move(info));
    set_target(p, n);
    p.recordable = p.kind == PlanNode::Kind::kernel && kernels_.recordable(n.op->name, device_type_, n.kernel_type());
    plan_->nodes.push_back(p);
    reuse_.push_back(kernels_.reuse(n.op->name, device_type_));
  }

  std::vector<SlotType> slot_types() const {
    std::vector<SlotType> types(plan_->num_slots);
    for (int id : order_) {
      const Node& n = graph_.node(id);
      for (std::size_t i = 0; i < n.output_types.size(); ++i)
        if (const InputRef ref = values_[at(id)][i]; ref.kind == InputRef::Kind::slot)
          types[ref.index] = {n.output_types[i], n.output_shapes[i]};
    }
    return types;
  }

  void mark_flushes() {
    for (std::size_t s = 0; s < members_.size(); ++s) {
      const std::span nodes = std::span(plan_->nodes).subspan(plan_->segments[s].first_node, members_[s].size());
      std::vector<NodeWork> work;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const Node& n = graph_.node(members_[s][i]);
        const bool leaves = n.op->is_departure();
        // What a branch does is not estimated.
        const double cost =
            nodes[i].kind == PlanNode::Kind::branch ? kDepartureWaitNs + 1 : estimated_cost_ns(graph_, n);
        work.push_back({leaves ? 0 : cost, leaves, leaves ? input_bytes(n) : 0});
      }
      const std::vector<bool> flushes = departure_flushes(work);
      for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].flushes = flushes[i];
    }
  }

  std::size_t input_bytes(const Node& n) const {
    std::size_t bytes = 0;
    for (const Endpoint& e : n.inputs)
      if (graph_.shape(e).fully_known())
        bytes += static_cast<std::size_t>(graph_.shape(e).num_elements()) * size_of(graph_.dtype(e));
    return bytes;
  }

  // For segments whose nodes are worth running side by side: which node waits for which.
  void order_nodes() {
    std::vector<std::uint32_t> position(at(graph_.size()), 0);  // in its segment
    for (std::size_t s = 0; s < members_.size(); ++s) {
      const std::vector<int>& members = members_[s];
      for (std::uint32_t i = 0; i < members.size(); ++i) position[at(members[i])] = i;
      if (!worth_parallel(s, position)) continue;
      plan_->segments[s].order = static_cast<std::int32_t>(plan_->orders.size());
      plan_->orders.push_back(node_order(s, position));
    }
  }

  // Members of the segment before `n`, also through nodes that do nothing when the plan runs.
  template <class Fn>
  void each_member_before(std::size_t segment, const Node& n, Fn fn) const {
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
      if (segment_of_[at(id)] == static_cast<int>(segment))
        fn(id);
      else if (segment_of_[at(id)] < 0 && arrival_of_[at(id)] < 0)
        push_sources(graph_.node(id));
    }
  }

  bool worth_parallel(std::size_t segment, const std::vector<std::uint32_t>& position) const {
    const std::vector<int>& members = members_[segment];
    std::vector<double> done(members.size(), 0);  // when each ends, on any number of threads
    double total = 0, longest = 0;
    for (int id : members) total += estimated_cost_ns(graph_, graph_.node(id));
    if (total < kParallelNs || total < kParallelNodeNs * static_cast<double>(members.size())) return false;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Node& n = graph_.node(members[i]);
      double start = 0;
      each_member_before(segment, n, [&](int id) { start = std::max(start, done[position[at(id)]]); });
      done[i] = start + estimated_cost_ns(graph_, n);
      longest = std::max(longest, done[i]);
    }
    return total >= kParallelWidth * longest;
  }

  // Beside the graph's edges: those who use a variable do so in the order of the plan, but for readers among
  // themselves.
  NodeOrder node_order(std::size_t segment, const std::vector<std::uint32_t>& position) const {
    const std::vector<int>& members = members_[segment];
    struct Users {
      int writer = -1;
      std::vector<std::uint32_t> readers;  // since
    };
    std::map<std::uint32_t, Users> variables;
    std::vector<std::set<std::uint32_t>> before(members.size());
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      const Node& n = graph_.node(members[i]);
      each_member_before(segment, n, [&](int id) { before[i].insert(position[at(id)]); });
      for (const Endpoint& e : n.inputs) {
        const InputRef ref = values_[at(e.node)][at(e.index)];
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

  void set_target(PlanNode& p, const Node& n) {
    const auto append = [&](PlanNode::Kind kind, auto& list, auto&& value) {
      p.kind = kind;
      p.target = static_cast<std::uint32_t>(list.size());
      list.push_back(std::forward<decltype(value)>(value));
    };
    const auto push = [&](PlanNode::Kind kind) {
      append(kind, plan_->pushes, PushTarget{number(n, "slice"), number(n, "shard")});
    };
    switch (n.op->role) {
      case OpRole::send:
        return append(PlanNode::Kind::send, plan_->sends,
                      SendTarget{EdgeId{number(n, "edge")}, n.attributes.string("to")});
      case OpRole::push:
        return push(PlanNode::Kind::push);
      case OpRole::push_sparse:
        return push(PlanNode::Kind::push_sparse);
      case OpRole::contribute:
        return append(PlanNode::Kind::contribute, plan_->contributions,
                      ContributionTarget{channel(n), parse_reduction(n.attributes.string("reduction")), n.name});
      case OpRole::fetch:
        return append(PlanNode::Kind::fetch, plan_->fetch_indices, fetch_index(n));
      case OpRole::branch:
        return append(PlanNode::Kind::branch, plan_->branches,
                      Plan::Branch{branch(n, "then_branch"), branch(n, "else_branch")});
      default:
        return append(PlanNode::Kind::kernel, plan_->kernels, kernel(n));
    }
  }

  std::uint32_t fetch_index(const Node& n) {
    const std::uint32_t index = number(n, "index");
    if (!fetched_.insert(index).second) invalid_argument("Fetch '{}': another node has index {}", n.name, index);
    return index;
  }

  Kernel kernel(const Node& n) const {
    std::vector<DType> in;
    std::vector<const Tensor*> constants;
    for (const Endpoint& e : n.inputs) {
      in.push_back(graph_.dtype(e));
      const InputRef& value = values_[at(e.node)][at(e.index)];
      constants.push_back(value.kind == InputRef::Kind::constant ? &plan_->constants[value.index] : nullptr);
    }
    try {
      return kernels_.get(n.op->name, device_type_,
                          n.kernel_type())({n.name, n.attributes, in, n.output_types, constants});
    } catch (...) {
      throw current_error().within(fmt::format("{} '{}' on {}", n.op->name, n.name, plan_->device));
    }
  }

  std::shared_ptr<const Plan> branch(const Node& n, const char* attr) {
    const std::string& name = n.attributes.get<FunctionName>(attr).value;
    // A function's own library is that of its body.
    const Function* function = graph_.function(name);
    if (!function) fail(Code::not_found, "If '{}': there is no function '{}'", n.name, name);
    if (n.inputs.empty()) invalid_argument("If '{}' has no condition", n.name);
    const FunctionPlans::Entry& entry = compiled(*function);
    height_ = std::max(height_, entry.height + 1);
    expanded_nodes_ += entry.expanded_nodes;
    if (depth_ + height_ > kMaxNesting)
      invalid_argument("If '{}': functions are nested more than {} deep", n.name, kMaxNesting);
    if (expanded_nodes_ > kMaxExpandedNodes)
      fail(Code::resource_exhausted, "If '{}': with its branches the graph has more than {} nodes", n.name,
           kMaxExpandedNodes);
    check_call(n, *function);
    return entry.plan;
  }

  const FunctionPlans::Entry& compiled(const Function& function) {
    const auto [it, fresh] =
        functions_.entries.try_emplace({function.body.get(), function.arguments, function.results});
    FunctionPlans::Entry& entry = it->second;
    if (!fresh) {
      if (!entry.plan) invalid_argument("function '{}' calls itself", function.name);
      return entry;
    }
    if (depth_ == kMaxNesting)
      invalid_argument("function '{}': functions are nested more than {} deep", function.name, kMaxNesting);
    PlanBuilder inner(*function.body, &function, kernels_, device_type_, plan_->device, functions_, depth_ + 1);
    entry.plan = inner.build();
    entry.height = inner.height();
    entry.expanded_nodes = inner.expanded_nodes();
    return entry;
  }

  // Do an If's inputs and outputs fit the function's?
  void check_call(const Node& n, const Function& f) const {
    std::vector<DType> arguments, given, results;
    for (const Endpoint& e : f.arguments) arguments.push_back(f.body->dtype(e));
    for (const Endpoint& e : f.results) results.push_back(f.body->dtype(e));
    for (const Endpoint& e : n.inputs) given.push_back(graph_.dtype(e));
    given.erase(given.begin());  // the condition
    const auto text = [](const std::vector<DType>& types) {
      std::string out;
      for (DType t : types) out += (out.empty() ? "" : ", ") + std::string(name(t));
      return "(" + out + ")";
    };
    if (arguments != given || results != n.output_types)
      invalid_argument("If '{}': function '{}' is {} -> {}, but the node is {} -> {}", n.name, f.name, text(arguments),
                       text(results), text(given), text(n.output_types));
  }

  void bind_function() {
    for (const Endpoint& e : function_->arguments) {
      const InputRef ref = values_[at(e.node)][0];
      const bool variable = ref.kind == InputRef::Kind::variable;
      plan_->argument_slots.push_back(variable ? Plan::kNoSlot : ref.index);
      plan_->argument_variables.push_back(variable ? ref.index : Plan::kNoSlot);
    }
    for (const Endpoint& e : function_->results) plan_->results.push_back(values_[at(e.node)][at(e.index)]);
  }

  // A slot read in one segment only has a last use known now, if its nodes run in order; others are counted.
  void mark_last_uses() {
    std::vector<int> segment_reading(plan_->num_slots, -1);
    std::vector<std::uint16_t> uses(plan_->num_slots, 0);
    constexpr int kSeveral = -2;
    const auto each_input = [&](auto&& fn) {
      for (std::size_t s = 0; s < plan_->segments.size(); ++s)
        for (std::uint32_t i = 0; i < plan_->segments[s].num_nodes; ++i) {
          const PlanNode& node = plan_->nodes[plan_->segments[s].first_node + i];
          for (std::uint32_t k = 0; k < node.num_inputs; ++k)
            fn(static_cast<int>(s), plan_->inputs[node.first_input + k]);
        }
    };
    each_input([&](int s, const InputRef& ref) {
      if (ref.kind != InputRef::Kind::slot) return;
      int& reading = segment_reading[ref.index];
      const bool in_order = plan_->segments[at(s)].order < 0;
      reading = reading == -1 || (reading == s && in_order) ? s : kSeveral;
      if (uses[ref.index] != 0xffff) ++uses[ref.index];
    });
    plan_->slot_uses.assign(plan_->num_slots, 0);
    plan_->slot_is_read.resize(plan_->num_slots);
    for (std::size_t s = 0; s < uses.size(); ++s) plan_->slot_is_read[s] = uses[s] > 0;
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
      if (result.kind == InputRef::Kind::slot) {
        last[result.index] = nullptr;
        plan_->slot_is_read[result.index] = true;
      }
    for (InputRef* ref : last)
      if (ref) ref->kind = InputRef::Kind::slot_last;
  }

  const Graph& graph_;
  const Function* function_;
  const KernelRegistry& kernels_;
  const std::string& device_type_;
  FunctionPlans& functions_;
  int depth_;
  int height_ = 0;
  std::size_t expanded_nodes_ = 0;
  std::unique_ptr<Plan> plan_;
  std::vector<int> order_;
  std::vector<Reuse> reuse_;  // by node of the plan
  std::vector<std::vector<InputRef>> values_;
  std::vector<int> segment_of_;
  std::vector<std::vector<int>> members_;
  std::vector<int> arrival_of_;  // by node; -1: not an arrival
  std::vector<int> seen_by_;     // by node: the last segment that looked through it
  std::set<std::uint32_t> edges_;
  std::set<std::uint32_t> fetched_;
};

}  // namespace

std::unique_ptr<const Plan> build_plan(const Graph& partition, const KernelRegistry& kernels,
                                       const std::string& device_type, const std::string& device_name,
                                       const PlaceConstant& place) {
  FunctionPlans functions{place, {}};
  return PlanBuilder(partition, nullptr, kernels, device_type, device_name, functions, 0).build();
}

std::uint64_t original_name_hash(const Node& node) {
  const std::string& text =
      node.attributes.has("_original_name") ? node.attributes.string("_original_name") : node.name;
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace troupe
