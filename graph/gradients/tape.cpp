#include "troupe/graph/gradients/tape.hpp"

#include <algorithm>
#include <optional>

#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/gradients/reverse_mode.hpp>

namespace troupe {
namespace {

bool carries_gradients(DType dtype) { return is_floating(dtype) || dtype == DType::list; }

// The variable that an op reads as a whole; null for others.
const Output* variable_read(const NodeSpec& op, std::span<const Output> outputs) {
  const bool reads = op.inputs.size() == 1 && op.inputs[0].dtype() == DType::resource && outputs.size() == 1 &&
                     outputs[0].source().op->reads_only;
  return reads ? &op.inputs[0] : nullptr;
}

bool is_trainable(const Output& variable) {
  const Attributes& attributes = variable.source().attributes;
  return !attributes.has("_trainable") || attributes.boolean("_trainable");
}

}  // namespace

void GradientTape::watch(const Output& x) {
  if (!x.valid()) invalid_argument("GradientTape::watch: not a tensor");
  if (!x.eager && !x.graph->around())
    invalid_argument("GradientTape::watch: the tensor is of a graph: use gradients()");
  if (!carries_gradients(x.dtype()) && x.dtype() != DType::resource)
    invalid_argument("GradientTape::watch: the tensor is {}, not floating", name(x.dtype()));
  if (watched_.insert(Key(x)).second) kept_.push_back(x);
}

void GradientTape::ran(const NodeSpec& op, std::span<const Output> outputs) {
  if (!recording_ || outputs.empty()) return;
  if (const Output* variable = variable_read(op, outputs)) {
    const Key handle(*variable);
    if (!watched_.contains(handle)) {
      if (!options_.watch_variables || !is_trainable(*variable)) return;
      watch(*variable);
    }
    variable_of_.emplace(Key(outputs[0]), handle);
    reads_.emplace(handle, outputs[0]);
    kept_.push_back(outputs[0]);
    return;
  }
  if (outputs[0].source().op->no_gradient) return;
  record(op.inputs, outputs, nullptr);
}

void GradientTape::ran_function(Graph&, std::span<const Output> xs, std::span<const Output> ys,
                                const Backward& backward) {
  if (recording_) record(xs, ys, backward);
}

bool GradientTape::wants(const Output& x) const {
  if (!recording_ || !x.valid()) return false;
  if (x.dtype() == DType::resource) return is_watched(x) || (options_.watch_variables && is_trainable(x));
  return is_watched(x) && carries_gradients(x.dtype());
}

void GradientTape::record(std::span<const Output> inputs, std::span<const Output> outputs, Backward backward) {
  const auto depends = [&](const Output& x) { return is_watched(x) && carries_gradients(x.dtype()); };
  if (watched_.empty() || std::ranges::none_of(inputs, depends)) return;
  for (const Output& y : outputs) watched_.insert(Key(y));
  records_.push_back(
      {Outputs(inputs.begin(), inputs.end()), Outputs(outputs.begin(), outputs.end()), std::move(backward)});
}

// One call of gradients().
class GradientTape::Reverse {
 public:
  Reverse(const GradientTape& tape, std::span<const Output> xs, const GradientOptions& options) : tape_(tape) {
    // What nobody watched was not recorded on all its ways.
    for (const Output& x : xs)
      if (tape.is_watched(x)) dependants_.insert(tape.key(x));
    for (const Output& s : options.stop_gradients) stops_.insert(tape.key(s));
    xs_ = dependants_;
    for (const Record& record : tape.records_)
      if (std::ranges::any_of(record.inputs, [&](const Output& x) { return depends(x); }))
        for (const Output& y : record.outputs) dependants_.insert(Key(y));
  }

  void seed(const Output& y, Output gradient) { partial_[tape_.key(y)].push_back({.dense = std::move(gradient)}); }

  void run() {
    for (auto record = tape_.records_.rbegin(); record != tape_.records_.rend(); ++record)
      if (std::ranges::any_of(record->outputs, [&](const Output& y) { return dependants_.contains(Key(y)); }))
        differentiate(*record);
  }

  Gradient total(const Output& x) {
    const auto found = partial_.find(tape_.key(x));
    if (found == partial_.end()) return {};
    std::vector<Gradient>& parts = found->second;
    if (parts.size() > 1) parts = {sum_of_gradients(parts, tape_.tensor_like(x))};
    return parts.front();
  }

 private:
  bool depends(const Output& x) const {
    if (!x.valid() || !carries_gradients(x.dtype())) return false;
    const Key key = tape_.key(x);
    return xs_.contains(key) || (dependants_.contains(key) && !stops_.contains(key));
  }

  void differentiate(const Record& record) {
    Outputs flowing(record.outputs.size());
    bool any = false;
    for (std::size_t i = 0; i < flowing.size(); ++i) {
      const Output& y = record.outputs[i];
      if (stops_.contains(Key(y))) continue;
      if (const Gradient gradient = total(y)) {
        flowing[i] = dense(gradient, y);
        any = true;
      }
    }
    if (!any) return;
    const std::vector<Gradient> made =
        record.backward ? by_function(record, std::move(flowing)) : by_op(record, std::move(flowing));
    for (std::size_t i = 0; i < made.size(); ++i)
      if (made[i] && depends(record.inputs[i])) partial_[tape_.key(record.inputs[i])].push_back(made[i]);
  }

  std::vector<Gradient> by_op(const Record& record, Outputs flowing) const {
    const Output& first = record.outputs.front();
    const Node& node = first.source();
    if (!node.op->gradient)
      fail(Code::unimplemented, "{}: the op has no gradient; use stop_gradient if it is meant to be constant",
           node.op->name);
    std::vector<bool> needed;
    for (const Output& x : record.inputs) needed.push_back(depends(x));
    const auto device = first.graph->on_device(node.device);
    Outputs inputs = record.inputs;
    for (Output& x : inputs) x = first.graph->brought_in(x);
    GradientContext context(*first.graph, node, std::move(inputs), record.outputs, std::move(flowing),
                            std::move(needed));
    try {
      node.op->gradient(context);
    } catch (const Error& error) {
      throw error.within("gradient of " + node.op->name);
    }
    return std::move(context.results());
  }

  static std::vector<Gradient> by_function(const Record& record, Outputs flowing) {
    for (std::size_t i = 0; i < flowing.size(); ++i)
      if (!flowing[i].valid()) flowing[i] = zeros_like(record.outputs[i]);
    return record.backward(flowing);
  }

  const GradientTape& tape_;
  Keys xs_, stops_, dependants_;  // of xs: they, and what depends on them
  ByKey<std::vector<Gradient>> partial_;
};

std::vector<Gradient> GradientTape::gradients(std::span<const Output> ys, std::span<const Output> xs,
                                              const GradientOptions& options) {
  return compute(ys, xs, options, Dense::none);
}

std::vector<Gradient> GradientTape::compute(std::span<const Output> ys, std::span<const Output> xs,
                                            const GradientOptions& options, Dense which) {
  if (used_ && !options_.persistent)
    fail(Code::failed_precondition,
         "GradientTape: its gradients were computed already; make it with .persistent = true to ask it again");
  used_ = true;
  check_gradient_arguments(ys, xs, options);
  const bool recorded = std::exchange(recording_, false);
  std::vector<Gradient> out;
  {
    Reverse reverse(*this, xs, options);
    for (std::size_t i = 0; i < ys.size(); ++i)
      reverse.seed(ys[i], options.grad_ys.empty() ? ones_like(ys[i]) : options.grad_ys[i]);
    reverse.run();
    for (const Output& x : xs) {
      out.push_back(reverse.total(x));
      const bool as_dense = which == Dense::all || (which == Dense::of_tensors && x.dtype() != DType::resource);
      if (as_dense && out.back().is_sparse()) out.back() = {.dense = dense(out.back(), tensor_like(x))};
    }
  }
  if (options_.persistent) {
    recording_ = recorded;
  } else {
    records_.clear();
    watched_.clear();
    variable_of_.clear();
    reads_.clear();
    kept_.clear();
  }
  return out;
}

Output GradientTape::gradient(const Output& y, const Output& x) { return gradient(y, Outputs{x})[0]; }

Outputs GradientTape::gradient(const Output& y, const Outputs& xs) {
  Outputs out;
  for (const Gradient& gradient : compute(std::span(&y, 1), xs, {}, Dense::all)) out.push_back(gradient.dense);
  return out;
}

std::vector<Gradient> gradients_of(const std::function<SeededOutputs()>& fn, const Outputs& xs) {
  std::optional<GradientTape> tape;
  if (!xs.empty() && xs.front().eager) tape.emplace();
  if (tape)
    for (const Output& x : xs) tape->watch(x);
  SeededOutputs made = fn();
  if (made.ys.empty()) return std::vector<Gradient>(xs.size());
  const GradientOptions options{.grad_ys = std::move(made.grad_ys)};
  return tape ? tape->gradients(made.ys, xs, options) : gradients(made.ys, xs, options);
}

ValueAndGradients value_and_grad(const std::function<Output(const Outputs& xs)>& fn, const Outputs& xs) {
  GradientTape tape;
  for (const Output& x : xs) tape.watch(x);
  ValueAndGradients out;
  out.value = fn(xs);
  out.gradients = tape.gradient(out.value, xs);
  return out;
}

}  // namespace troupe
