#include "troupe/actors/eager/traced_call.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include <troupe/actors/eager/values.hpp>
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/gradients/reverse_mode.hpp>
#include <troupe/graph/op_runner.hpp>
#include <troupe/graph/passes/resource_calls.hpp>

namespace troupe {
namespace {

std::shared_ptr<const Node> without_edges(const Node& node) {
  auto copy = std::make_shared<Node>(node);
  copy->controls.clear();
  return copy;
}

bool has_loops(const Graph& graph) {
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->role == OpRole::loop) return true;
    for (const AttrDef& attr : node.op->attrs) {
      if (attr.type != AttrType::function || !node.attributes.has(attr.name)) continue;
      const Function* function = graph.function(node.attributes.get<FunctionName>(attr.name).value);
      if (function && has_loops(*function->body)) return true;
    }
  }
  return false;
}

Output in(Graph& graph, const Output& of_clone) { return {&graph, of_clone.node, of_clone.index}; }

constexpr std::chrono::milliseconds kSlowStep{1};

RunOptions numbered(const RandomKey& key) {
  return {.random_step = static_cast<std::int64_t>(key.step), .seed = key.seed};
}

}  // namespace

// A graph with gradients behind it. A step with tapes fetches what these need; a step backward is fed that.
struct TracedCall::Differentiated {
  std::unique_ptr<Graph> graph;
  std::optional<Session> session;
  std::optional<StepRunner> forward, backward;
  std::vector<std::size_t> fed{};    // of its feeds, those that the backward step needs as well
  std::vector<std::size_t> flowing;  // results whose gradients the backward step takes
  // By source that is wanted: what it makes.
  enum class Kind { none, dense, sparse };
  std::vector<Kind> made;
};

TracedCall::TracedCall(Eager& eager, std::unique_ptr<FunctionTrace> trace)
    : eager_(eager),
      trace_(std::move(trace)),
      session_(eager.task(), trace_->graph(), session_options()),
      may_wait_(has_loops(trace_->graph()) || has_resource_calls(trace_->graph())),
      step_(eager, session_, is_empty() ? Callable() : session_.callable(fed(), trace_->results(), trace_->effects()),
            may_wait_) {
  for (const Output& result : trace_->results()) made_by_.emplace_back(without_edges(result.source()), result.index);
}

SessionOptions TracedCall::session_options() const { return {.variables = trace_->variables()}; }

Outputs TracedCall::fed() const {
  Outputs out = trace_->arguments();
  for (const FunctionTrace::Capture& capture : trace_->captures())
    if (!capture.is_variable()) out.push_back(capture.inside[0]);
  return out;
}

std::vector<Tensor> TracedCall::feeds(const Outputs& inputs) const {
  std::vector<Tensor> out;
  out.reserve(inputs.size() + trace_->captures().size());
  for (const Output& x : inputs) out.push_back(x.value());
  for (const FunctionTrace::Capture& capture : trace_->captures())
    if (!capture.is_variable()) out.push_back(capture.value.value());
  return out;
}

Outputs TracedCall::sources(const Outputs& inputs) const {
  Outputs out;
  for (const Output& x : inputs)
    if (is_floating(x.dtype())) out.push_back(x);
  for (const FunctionTrace::Capture& capture : trace_->captures()) out.push_back(capture.value);
  return out;
}

Outputs TracedCall::wrap(std::vector<Tensor> values) const {
  Outputs out;
  out.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    out.push_back(
        {&eager_.graph(), -1, made_by_[i].second, EagerPtr(new HostTensor(std::move(values[i]), made_by_[i].first))});
  return out;
}

std::vector<Tensor> StepRunner::operator()(std::vector<Tensor> feeds, const RunOptions& options) {
  const auto& run_long = eager_.options().run_long_step;
  if (!run_long) return callable_(std::move(feeds), options);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::vector<Tensor> out = may_wait_ || was_slow_.load(std::memory_order_relaxed)
                                ? run_long(session_, callable_, std::move(feeds), options)
                                : callable_(std::move(feeds), options);
  was_slow_.store(Clock::now() - begin > kSlowStep, std::memory_order_relaxed);
  return out;
}

Outputs TracedCall::run(const Outputs& inputs, const std::vector<bool>& wanted) {
  if (is_empty()) return {};
  if (!wanted.empty()) return run_recorded(inputs, wanted);
  return wrap(step_(feeds(inputs), numbered(eager_.next_random_key())));
}

Outputs TracedCall::run_recorded(const Outputs& inputs, const std::vector<bool>& wanted) {
  const std::shared_ptr<Differentiated> plan = differentiated(wanted);
  // Of a variable its value before the step, which the tapes then know.
  Outputs xs;
  const Outputs all = sources(inputs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!wanted[i]) continue;
    if (all[i].dtype() != DType::resource)
      xs.push_back(all[i]);
    else
      xs.push_back(VariableRef{.handle = all[i], .dtype = all[i].source().attributes.dtype("T")}.read());
  }
  const RandomKey key = eager_.next_random_key();
  std::vector<Tensor> given = feeds(inputs);
  std::vector<Tensor> kept;
  for (const std::size_t i : plan->fed) kept.push_back(given[i]);
  std::vector<Tensor> values = (*plan->forward)(std::move(given), numbered(key));
  const auto results = static_cast<std::ptrdiff_t>(trace_->results().size());
  std::move(values.begin() + results, values.end(), std::back_inserter(kept));
  values.resize(static_cast<std::size_t>(results));
  const Outputs ys = wrap(std::move(values));
  Graph& graph = eager_.graph();
  const auto backward = [plan, kept = std::move(kept), key, &graph](const Outputs& dys) {
    std::vector<Tensor> feeds = kept;
    for (const std::size_t i : plan->flowing) feeds.push_back(dys[i].value());
    std::vector<Tensor> made;  // nothing if no gradient flows
    if (plan->backward) made = (*plan->backward)(std::move(feeds), numbered(key));
    std::vector<Gradient> out;
    std::size_t at = 0;
    const auto next = [&] { return graph.constant(std::move(made[at++]), {}); };
    for (const Differentiated::Kind kind : plan->made) {
      Gradient& gradient = out.emplace_back();
      if (kind == Differentiated::Kind::dense) gradient.dense = next();
      if (kind == Differentiated::Kind::sparse) {
        gradient.indices = next();
        gradient.values = next();
      }
    }
    return out;
  };
  OpRecorder::tell_all([&](OpRecorder& recorder) { recorder.ran_function(graph, xs, ys, backward); });
  return ys;
}

std::shared_ptr<TracedCall::Differentiated> TracedCall::differentiated(const Mask& wanted) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Differentiated>& known = differentiated_[wanted];
  if (known) return known;
  auto plan = std::make_shared<Differentiated>();
  plan->graph = trace_->graph().clone();
  Graph& graph = *plan->graph;
  const int forward_nodes = graph.size();

  // Results that gradients reach, the gradients that the step backward is fed, and what it makes of them.
  Outputs ys, dys, made;
  for (std::size_t i = 0; i < trace_->results().size(); ++i) {
    const Output y = in(graph, trace_->results()[i]);
    if (!is_floating(y.dtype())) continue;
    plan->flowing.push_back(i);
    ys.push_back(y);
    dys.push_back(placeholder(graph, y.dtype(), y.shape(), graph.unique_name("gradient")));
  }
  std::vector<Outputs> inside;  // by source
  for (const Output& x : trace_->arguments())
    if (is_floating(x.dtype())) inside.push_back({x});
  for (const FunctionTrace::Capture& capture : trace_->captures()) inside.push_back(capture.inside);
  Outputs xs;
  for (std::size_t i = 0; i < inside.size(); ++i)
    for (const Output& x : inside[i])
      if (wanted[i]) xs.push_back(in(graph, x));
  const std::vector<Gradient> found =
      ys.empty() ? std::vector<Gradient>(xs.size()) : gradients(ys, xs, {.grad_ys = dys});
  auto next = found.begin();
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (!wanted[i]) continue;
    std::vector<Gradient> parts;
    for (std::size_t k = 0; k < inside[i].size(); ++k, ++next)
      if (*next) parts.push_back(*next);
    using Kind = Differentiated::Kind;
    if (parts.empty()) {
      plan->made.push_back(Kind::none);
      continue;
    }
    const Gradient total = sum_of_gradients(parts, in(graph, inside[i][0]));
    plan->made.push_back(total.is_dense() ? Kind::dense : Kind::sparse);
    if (total.is_dense())
      made.push_back(total.dense);
    else
      made.insert(made.end(), {total.indices, total.values});
  }

  for (Output& x : made)
    if (x.node < forward_nodes || x.source().op->is_source()) x = identity(x);  // what is fed is not fetched

  // Values of the function's own nodes that the gradients read.
  std::set<Endpoint> read;
  for (int id = forward_nodes; id < graph.size(); ++id)
    for (const Endpoint& e : graph.node(id).inputs) {
      const OpRole role = graph.node(e.node).op->role;
      if (e.node < forward_nodes && role != OpRole::constant && role != OpRole::variable) read.insert(e);
    }
  Outputs feeds, kept;
  const Outputs forward_feeds = fed();
  for (std::size_t i = 0; i < forward_feeds.size(); ++i)
    if (read.erase({forward_feeds[i].node, 0})) {
      plan->fed.push_back(i);
      feeds.push_back(in(graph, forward_feeds[i]));
    }
  for (const Endpoint& e : read) kept.push_back({&graph, e.node, e.index});
  feeds.insert(feeds.end(), kept.begin(), kept.end());
  feeds.insert(feeds.end(), dys.begin(), dys.end());

  plan->session.emplace(eager_.task(), graph, session_options());
  Outputs forward_fetches, effects;
  const auto here = [&](const Outputs& of, Outputs& to) {
    for (const Output& x : of) to.push_back(in(graph, x));
  };
  here(trace_->results(), forward_fetches);
  forward_fetches.insert(forward_fetches.end(), kept.begin(), kept.end());
  here(trace_->effects(), effects);
  Outputs first_feeds;
  here(forward_feeds, first_feeds);
  const auto runs = [&](std::optional<StepRunner>& step, Callable call) {
    step.emplace(eager_, *plan->session, std::move(call), may_wait_);
  };
  runs(plan->forward, plan->session->callable(first_feeds, forward_fetches, effects));
  if (!made.empty()) runs(plan->backward, plan->session->callable(feeds, made));
  return known = plan;
}

std::string TracedCall::explain() {
  return is_empty() ? "it does nothing\n" : session_.explain(fed(), trace_->results(), trace_->effects());
}

}  // namespace troupe
