#include "troupe/graph/layers/layers.hpp"

#include <cmath>

#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

// Puts random nodes into the scope of the variable: their values depend on their names.
Initializer random_initializer(std::function<Output(Graph&, const WeightSpec&, RandomOptions)> draw,
                               std::int64_t seed) {
  return [draw = std::move(draw), seed](Graph& graph, const WeightSpec& spec) {
    return draw(graph, spec, {.dtype = spec.dtype, .seed = seed});
  };
}

Initializer filled_with(Output (*value)(Graph&, DType)) {
  return [value](Graph& graph, const WeightSpec& spec) {
    const Output dims = constant(graph, Tensor::of<std::int64_t>(Shape{spec.shape.rank()}, spec.shape.dims()));
    return fill(dims, value(graph, spec.dtype));
  };
}

}  // namespace

namespace initializers {

Initializer zeros() {
  return filled_with([](Graph& graph, DType dtype) { return constant(graph, Tensor::zeros(dtype, Shape{})); });
}

Initializer ones() {
  return filled_with(
      [](Graph& graph, DType dtype) { return scalar_like(constant(graph, Tensor::zeros(dtype, Shape{})), 1); });
}

Initializer glorot_uniform(std::int64_t seed) {
  return random_initializer(
      [](Graph& graph, const WeightSpec& spec, RandomOptions options) {
        const double limit = std::sqrt(6 / (spec.fan_in + spec.fan_out));
        return random_uniform(graph, spec.shape, -limit, limit, std::move(options));
      },
      seed);
}

Initializer he_normal(std::int64_t seed) {
  return random_initializer(
      [](Graph& graph, const WeightSpec& spec, RandomOptions options) {
        return truncated_normal(graph, spec.shape, 0, std::sqrt(2 / spec.fan_in), std::move(options));
      },
      seed);
}

}  // namespace initializers

VariableRef VariablePool::get(Graph& graph, const std::string& name, const WeightSpec& spec,
                              const Initializer& initializer) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    const VariableRef& known = variables_[found->second];
    if (known.handle.graph != &graph)
      invalid_argument("variable '{}' belongs to another graph; a pool serves one graph", name);
    if (known.dtype != spec.dtype || !(known.shape == spec.shape))
      invalid_argument("variable '{}' is {}{}, but {}{} is needed here", name, troupe::name(known.dtype),
                       known.shape.to_string(), troupe::name(spec.dtype), spec.shape.to_string());
    return known;
  }
  if (!initializer) invalid_argument("variable '{}' has no initializer", name);
  if (!is_floating(spec.dtype))
    invalid_argument("variable '{}': weights must be floating, but the input is {}", name, troupe::name(spec.dtype));
  // Another model may have a variable of this name in the same scope.
  const std::string full = graph.unique_name(name.substr(name.rfind('/') + 1));
  const std::string local = full.substr(graph.current_scope().size());
  Output initial_value;
  {
    const auto scope = graph.scope(local);
    initial_value = initializer(graph, spec);
  }
  const VariableRef created = variable(
      graph, {.name = local, .initial_value = initial_value, .shape = spec.shape, .trainable = spec.trainable});
  by_name_.emplace(name, variables_.size());
  variables_.push_back(created);
  if (spec.trainable) trainable_.push_back(created);
  return created;
}

DType LayerContext::compute_type(Output x, DType own) const {
  if (own != DType::invalid) return own;
  return compute != DType::invalid ? compute : weight_type(x);
}

void require_compute_type(const char* what, DType compute) {
  if (compute != DType::invalid && !is_floating(compute))
    invalid_argument("{}: products can be computed in bf16, f16, f32 or f64, not in {}", what, name(compute));
}

Sequential::Sequential(std::vector<LayerPtr> layers) {
  for (LayerPtr& layer : layers) add(std::move(layer));
}

void Sequential::add(LayerPtr layer) {
  if (!layer) invalid_argument("Sequential: layer {} is null", entries_.size());
  std::string name = layer->kind();
  if (const int before = kinds_[name]++) name = fmt::format("{}_{}", name, before);
  entries_.push_back({std::move(name), std::move(layer)});
}

void Sequential::set_compute(DType compute) {
  require_compute_type("Sequential", compute);
  compute_ = compute;
}

LayerContext Sequential::context_for(const LayerContext& outer, Output x) const {
  LayerContext inner = outer;
  if (compute_ != DType::invalid) inner.compute = compute_;
  if (inner.weights == DType::invalid) inner.weights = x.dtype();
  return inner;
}

Output Sequential::apply_entry(const Entry& entry, const LayerContext& context, Output x) {
  LayerContext inner = context;
  inner.layer = context.layer.empty() ? entry.name : context.layer + "/" + entry.name;
  const auto scope = context.graph.scope(entry.name);
  try {
    return entry.layer->apply(inner, x);
  } catch (const Error& error) {
    throw error.within(fmt::format("layer '{}'", inner.layer));
  }
}

Output Sequential::apply(LayerContext& context, Output x) const {
  if (!x.valid() || x.graph != &context.graph)
    invalid_argument("Sequential: the input {}", x.valid() ? "belongs to another graph" : "is not a tensor");
  const LayerContext inner = context_for(context, x);
  const DType result = x.dtype();
  for (const Entry& entry : entries_) x = apply_entry(entry, inner, x);
  return cast(x, result);
}

std::vector<Sequential::Summary> Sequential::summary(const Shape& input, const OpRegistry& ops) const {
  Graph graph(ops);
  VariablePool variables;
  Output x = placeholder(graph, DType::f32, input, "input");
  const LayerContext context = context_for({.graph = graph, .variables = variables}, x);
  std::vector<Summary> out;
  for (const Entry& entry : entries_) {
    const std::size_t known = variables.trainable().size();
    x = apply_entry(entry, context, x);
    Summary row{.name = entry.name, .kind = entry.layer->kind(), .output = x.shape()};
    for (std::size_t i = known; i < variables.trainable().size(); ++i)
      row.parameters += variables.trainable()[i].shape.num_elements();
    out.push_back(std::move(row));
  }
  return out;
}

std::string Sequential::dump(const Shape& input, const OpRegistry& ops) const {
  std::string text = fmt::format("{:<20} {:<20} {:>12}\n", "layer", "output", "parameters");
  std::int64_t total = 0;
  for (const Summary& row : summary(input, ops)) {
    text += fmt::format("{:<20} {:<20} {:>12}\n", row.name, row.output.to_string(), row.parameters);
    total += row.parameters;
  }
  return text + fmt::format("{:<20} {:<20} {:>12}\n", "total", "", total);
}

}  // namespace troupe
