#include "tests/graph/programs/steps.hpp"

#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "tests/graph/programs/evaluate.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/formats/text.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/common_subexpressions.hpp>
#include <troupe/graph/passes/fold.hpp>
#include <troupe/graph/passes/fuse_bias.hpp>
#include <troupe/graph/passes/fuse_elementwise.hpp>
#include <troupe/graph/passes/fuse_updates.hpp>
#include <troupe/graph/passes/mixed_precision.hpp>
#include <troupe/graph/passes/optimize.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/graph/passes/simplify.hpp>
#include <troupe/graph/placement/placement.hpp>

namespace troupe::testing {
namespace {

using Strings = std::vector<std::string>;

Strings split(const std::string& text, char separator) {
  Strings out;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    if (!part.empty()) out.push_back(part);
  return out;
}

// NAME=A,B NAME=...: each must be asked for.
class Options {
 public:
  explicit Options(const std::string& text) {
    for (const std::string& word : split(text, ' ')) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) invalid_argument("option '{}': expected NAME=VALUE", word);
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string text(const std::string& name, const std::string& fallback = "") {
    asked_.insert(name);
    const auto it = values_.find(name);
    return it == values_.end() ? fallback : it->second;
  }
  Strings list(const std::string& name) { return split(text(name), ','); }
  std::int64_t number(const std::string& name, std::int64_t fallback) {
    const std::string value = text(name, std::to_string(fallback));
    std::int64_t out = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (code != std::errc{} || end != value.data() + value.size())
      invalid_argument("option {}={} is not a number", name, value);
    return out;
  }
  void check() const {
    for (const auto& [name, value] : values_)
      if (!asked_.contains(name)) fail(Code::not_found, "there is no option '{}'", name);
  }

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string> asked_;
};

struct Step {
  const Section& section;
  Options& options;
  State& state;

  const Graph& graph() const { return state.whole(); }
  void note(const std::string& line) const { state.notes += line + "\n"; }
};

void callable(Step s) {
  s.state.graph = make_callable_graph(
      s.graph(),
      {.feeds = s.options.list("feeds"), .fetches = s.options.list("fetches"), .targets = s.options.list("targets")});
}

void prune_nodes(Step s) {
  std::vector<Endpoint> fetches;
  for (const std::string& name : s.options.list("fetches")) fetches.push_back(s.graph().endpoint(name));
  std::vector<int> targets;
  for (const std::string& name : s.options.list("targets")) targets.push_back(s.graph().get(name).id);
  s.state.graph = fetches.empty() && targets.empty() ? prune_callable(s.graph()) : prune(s.graph(), fetches, targets);
}

void fold(Step s) {
  const auto bytes = static_cast<std::size_t>(s.options.number("max_bytes", kFoldedBytes));
  s.state.graph = fold_constants(s.graph(), evaluate_node, bytes);
}

using Fusing = std::unique_ptr<Graph> (*)(const Graph&, const FuseOptions&);
template <Fusing pass>
void fuse(Step s) {
  const Strings without = s.options.list("without");
  PassNotes notes;
  const auto has_kernel = [&](std::string_view op, DType) { return std::ranges::find(without, op) == without.end(); };
  s.state.graph = pass(s.graph(), {.has_kernel = has_kernel, .notes = &notes});
  for (const std::string& note : notes) s.note(note);
}

void optimize_graph(Step s) {
  const Strings off = s.options.list("off");
  const auto report = [&](const PassReport& r) {
    s.note(fmt::format("{} {} -> {}", r.pass, r.nodes_before, r.nodes_after));
    for (const std::string& note : r.notes) s.note("  " + note);
  };
  s.state.graph = optimize(s.graph().clone(),
                           {.evaluator = evaluate_node, .switched_off = {off.begin(), off.end()}, .report = report});
}

void narrow(Step s) {
  const auto precision = parse_dtype(s.options.text("to", "bf16"));
  MixedPrecisionReport report;
  s.state.graph = mixed_precision(s.graph(), {.precision = precision.value_or(DType::invalid)}, &report);
  s.note(report.to_string());
}

std::string text_of(const UpdateRule& rule) {
  std::string out = rule.op;
  for (const SlotVariable& slot : rule.slots)
    out += fmt::format(" {}={}{}{}", slot.role, slot.name, slot.shape.to_string(),
                       slot.initial_value.empty() ? "" : " from " + slot.initial_value);
  if (rule.learning_rate.valid()) out += " rate " + rule.learning_rate.to_string();
  for (const auto& [flag, name] :
       {std::pair(rule.schedule.has_value(), "scheduled"), std::pair(rule.counts_updates, "counts updates"),
        std::pair(rule.sparse, "sparse"), std::pair(rule.guarded, "guarded")})
    if (flag) out += std::string(", ") + name;
  return out;
}

void shard(Step s) {
  const ShardMap map(updated_variables(s.graph()), static_cast<int>(s.options.number("shards", 1)));
  ShardedGraph sharded = shard_variables(s.graph(), map);
  for (const auto& [variable, rule] : sharded.rules) s.note(variable + ": " + text_of(rule));
  for (const auto& [variable, value] : sharded.initial_values)
    s.note(fmt::format("{}: initial value {}", variable, value.empty() ? "none" : value));
  s.state.graph = std::move(sharded.graph);
}

void differentiate(Step s) {
  auto graph = s.graph().clone();
  const auto outputs = [&](const char* option) {
    std::vector<Output> out;
    for (const std::string& name : s.options.list(option)) out.push_back(graph->output(name));
    return out;
  };
  const std::vector<Output> ys = outputs("ys"), xs = outputs("xs");
  const auto found = gradients(ys, xs, {.stop_gradients = outputs("stop")});
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Gradient& g = found[i];
    s.note(xs[i].name() + ": " +
           (g.is_dense()    ? g.dense.name()
            : g.is_sparse() ? "rows " + g.values.name() + " at " + g.indices.name()
                            : "none"));
  }
  s.state.graph = std::move(graph);
}

// "/job:ps/task:0/device:CPU:0 Add:f32 NoOp" or "... *".
DeviceInfo device_of(const std::string& line) {
  const Strings words = split(line, ' ');
  DeviceInfo out{.name = DeviceName::parse(words.at(0))};
  out.type = out.name.type.value_or("");
  out.kernels = {words.begin() + 1, words.end()};
  if (out.kernels.erase("*") > 0)
    for (const std::string& kernel : cpu_kernels().list("CPU")) out.kernels.insert(kernel);
  return out;
}

void place_nodes(Step s) {
  std::vector<DeviceInfo> devices;
  for (const std::string& line : split(s.section.body, '\n')) devices.push_back(device_of(line));
  const DeviceName client = DeviceName::parse(s.options.text("client", "/job:worker/task:0"));
  const bool soft = s.options.text("soft", "true") == "true";
  s.state.graph = place(s.graph(), devices, {.client = client.task_name(), .soft = soft});
}

void cut(Step s) {
  s.state.parts = partition(s.graph());
  for (const EdgeInfo& e : s.state.parts.edges)
    s.note(
        fmt::format("{} {} -> {}: {} {}{}", e.edge.value, e.from, e.to, e.tensor, name(e.dtype), e.shape.to_string()));
}

void towers(Step s) {
  std::vector<LayerPtr> list;
  for (const std::string& layer : s.options.list("layers")) {
    const Strings parts = split(layer, ':');  // units, activation
    const bool relu = parts.size() > 1 && parts[1] == "relu";
    list.push_back(layers::dense(std::stoll(parts.at(0)), relu ? Activation::relu : Activation::none));
  }
  TowerOptions options;
  options.slots = static_cast<int>(s.options.number("slots", 1));
  options.batch = s.options.number("batch", kUnknown);
  options.micro_batches = static_cast<int>(s.options.number("micro_batches", 1));
  options.devices = s.options.list("devices");
  options.clipping.global_norm = static_cast<double>(s.options.number("clip", 0));
  const Shape input{s.options.number("input", 1)};
  testing::ClassifierGraph built = testing::classifier_graph(Sequential(list), input, optimizers::SGD{}, options);
  s.note("train: " + built.train.name());
  s.state.graph = std::move(built.graph);
}

const std::map<std::string, void (*)(Step), std::less<>> kSteps = {
    {"graph", [](Step s) { s.state.graph = parse_text(s.section.body); }},
    {"callable", callable},
    {"cse", [](Step s) { s.state.graph = eliminate_common_subexpressions(s.graph()); }},
    {"fold", fold},
    {"fuse_bias", fuse<fuse_bias>},
    {"fuse_elementwise", fuse<fuse_elementwise>},
    {"fuse_updates", fuse<fuse_updates>},
    {"gradients", differentiate},
    {"mixed_precision", narrow},
    {"optimize", optimize_graph},
    {"partition", cut},
    {"place", place_nodes},
    {"prune", prune_nodes},
    {"shard", shard},
    {"simplify", fuse<simplify>},
    {"towers", towers},
};

}  // namespace

const Graph& State::whole() const {
  if (!graph) fail(Code::failed_precondition, "there is no graph yet: a program begins with \"=== graph\"");
  return *graph;
}

const Graph& State::part(const std::string& device) const {
  const auto it = parts.parts.find(device);
  if (it == parts.parts.end()) fail(Code::not_found, "the partitioned graph has no part on '{}'", device);
  return *it->second;
}

void run_step(const Section& section, State& state) {
  const auto step = kSteps.find(section.name);
  if (step == kSteps.end()) fail(Code::not_found, "there is no section '{}'", section.name);
  Options options(section.options);
  step->second({section, options, state});
  options.check();
}

}  // namespace troupe::testing
