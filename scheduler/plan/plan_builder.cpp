// Compiles a partition, and the functions that it runs, to a plan: the phases of plan_draft.hpp in order.
#include <algorithm>
#include <map>
#include <tuple>

#include <troupe/graph/control_flow.hpp>
#include <troupe/scheduler/plan/plan_draft.hpp>

namespace troupe {
namespace {

// Functions compiled so far in one build, so that one used in several places is compiled once. Also bounds nesting and
// the size that it expands to: otherwise a small graph could describe an enormous one.
struct FunctionPlans {
  PlaceConstant place;  // may be null
  struct Entry {
    std::shared_ptr<const Plan> plan;  // null while it is being compiled
    int height = 0;                    // functions nested in it
    std::size_t expanded_nodes = 0;    // with those of all its functions
  };
  // The last number: Plan::kept_arguments.
  using Key = std::tuple<const Graph*, std::vector<Endpoint>, std::vector<Endpoint>, std::size_t>;
  std::map<Key, Entry> entries;
};

constexpr int kMaxNesting = 32;
constexpr std::size_t kMaxExpandedNodes = 10'000'000;

// Builds the plan of one partition, or of a function body.
class PlanBuilder {
 public:
  // `function`: null for a partition. `depth`: functions around it.
  PlanBuilder(const Graph& graph, const Function* function, const KernelRegistry& kernels,
              const std::string& device_type, const std::string& device_name, FunctionPlans& functions, int depth)
      : draft_(graph, function, kernels, device_type, device_name), functions_(functions), depth_(depth) {}

  std::unique_ptr<Plan> build() {
    place_values(draft_);
    form_segments(draft_);
    emit_nodes(draft_, [this](const Node& n, const char* attribute) { return function(n, attribute); });
    expanded_nodes_ += draft_.plan->nodes.size();
    if (draft_.function) bind_function();
    order_and_place(draft_);
    if (functions_.place)
      for (Tensor& constant : draft_.plan->constants) constant = functions_.place(constant);
    return std::move(draft_.plan);
  }

  int height() const { return height_; }                          // functions nested in it
  std::size_t expanded_nodes() const { return expanded_nodes_; }  // with those of all its functions

 private:
  static std::size_t at(int id) { return PlanDraft::at(id); }

  std::shared_ptr<const Plan> function(const Node& n, const char* attr) {
    const std::string& name = n.attributes.get<FunctionName>(attr).value;
    // A function's own library is that of its body.
    const Function* function = draft_.graph.function(name);
    if (!function) fail(Code::not_found, "{} '{}': there is no function '{}'", n.op->name, n.name, name);
    const FunctionPlans::Entry& entry = compiled(*function, kept_arguments(n, *function));
    height_ = std::max(height_, entry.height + 1);
    expanded_nodes_ += entry.expanded_nodes;
    if (depth_ + height_ > kMaxNesting)
      invalid_argument("{} '{}': functions are nested more than {} deep", n.op->name, n.name, kMaxNesting);
    if (expanded_nodes_ > kMaxExpandedNodes)
      fail(Code::resource_exhausted, "{} '{}': with its functions the graph has more than {} nodes", n.op->name, n.name,
           kMaxExpandedNodes);
    try {
      check_functions(draft_.graph, n);
    } catch (const Error& error) {
      throw error.within(fmt::format("{} '{}'", n.op->name, n.name));
    }
    return entry.plan;
  }

  // The arguments of a loop's body behind the index, the values and the rows.
  static std::size_t kept_arguments(const Node& n, const Function& function) {
    if (n.op->role != OpRole::loop) return 0;
    const auto changing =
        1 + static_cast<std::size_t>(n.attributes.integer("carried") + n.attributes.integer("scanned"));
    return function.arguments.size() > changing ? function.arguments.size() - changing : 0;
  }

  const FunctionPlans::Entry& compiled(const Function& function, std::size_t kept) {
    const auto [it, fresh] =
        functions_.entries.try_emplace({function.body.get(), function.arguments, function.results, kept});
    FunctionPlans::Entry& entry = it->second;
    if (!fresh) {
      if (!entry.plan) invalid_argument("function '{}' calls itself", function.name);
      return entry;
    }
    if (depth_ == kMaxNesting)
      invalid_argument("function '{}': functions are nested more than {} deep", function.name, kMaxNesting);
    PlanBuilder inner(*function.body, &function, draft_.kernels, draft_.device_type, draft_.plan->device, functions_,
                      depth_ + 1);
    inner.draft_.plan->kept_arguments = kept;
    entry.plan = inner.build();
    entry.height = inner.height();
    entry.expanded_nodes = inner.expanded_nodes();
    return entry;
  }

  void bind_function() {
    for (const Endpoint& e : draft_.function->arguments) {
      const InputRef ref = draft_.values[at(e.node)][0];
      const bool variable = ref.kind == InputRef::Kind::variable;
      draft_.plan->argument_slots.push_back(variable ? Plan::kNoSlot : ref.index);
      draft_.plan->argument_variables.push_back(variable ? ref.index : Plan::kNoSlot);
    }
    for (const Endpoint& e : draft_.function->results)
      draft_.plan->results.push_back(draft_.values[at(e.node)][at(e.index)]);
  }

  PlanDraft draft_;
  FunctionPlans& functions_;
  int depth_;
  int height_ = 0;
  std::size_t expanded_nodes_ = 0;
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
