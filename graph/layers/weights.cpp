#include "troupe/graph/layers/weights.hpp"

#include <cmath>
#include <optional>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/functions.hpp>

namespace troupe {
namespace {

using InitializerFunction = Initializer::Function;

InitializerFunction filled_with(Output (*value)(Graph&, DType)) {
  return [value](Graph& graph, const WeightSpec& spec) {
    const Output dims = constant(graph, Tensor::of<std::int64_t>(Shape{spec.shape.rank()}, spec.shape.dims()));
    return fill(dims, value(graph, spec.dtype));
  };
}

InitializerFunction filled_with_zeros(const Attributes&) {
  return filled_with([](Graph& graph, DType dtype) { return constant(graph, Tensor::zeros(dtype, Shape{})); });
}

InitializerFunction filled_with_ones(const Attributes&) {
  return filled_with(
      [](Graph& graph, DType dtype) { return scalar_like(constant(graph, Tensor::zeros(dtype, Shape{})), 1); });
}

InitializerFunction filled_with_constant(const Attributes& options) {
  return [value = options.real("value")](Graph& graph, const WeightSpec& spec) {
    const Output dims = constant(graph, Tensor::of<std::int64_t>(Shape{spec.shape.rank()}, spec.shape.dims()));
    return fill(dims, constant(graph, scalar_of(spec.dtype, value)));
  };
}

// Puts random nodes into the scope of the variable: their values depend on their names.
RandomOptions drawing(const WeightSpec& spec, std::int64_t seed) { return {.dtype = spec.dtype, .seed = seed}; }

using Fan = double (*)(const WeightSpec&);
double fan_in(const WeightSpec& spec) { return spec.fan_in; }
double fan_sum(const WeightSpec& spec) { return spec.fan_in + spec.fan_out; }

template <Fan fan, int numerator>
InitializerFunction scaled_uniform(const Attributes& options) {
  return [seed = options.integer("seed")](Graph& graph, const WeightSpec& spec) {
    const double limit = std::sqrt(numerator / fan(spec));
    return troupe::random_uniform(graph, spec.shape, -limit, limit, drawing(spec, seed));
  };
}

template <Fan fan, int numerator>
InitializerFunction scaled_normal(const Attributes& options) {
  return [seed = options.integer("seed")](Graph& graph, const WeightSpec& spec) {
    return troupe::truncated_normal(graph, spec.shape, 0, std::sqrt(numerator / fan(spec)), drawing(spec, seed));
  };
}

InitializerFunction uniform_between(const Attributes& options) {
  return [low = options.real("low"), high = options.real("high"), seed = options.integer("seed")](
             Graph& graph, const WeightSpec& spec) {
    return troupe::random_uniform(graph, spec.shape, low, high, drawing(spec, seed));
  };
}

template <auto draw>
InitializerFunction normal_around(const Attributes& options) {
  return
      [mean = options.real("mean"), stddev = options.real("stddev"), seed = options.integer("seed")](
          Graph& graph, const WeightSpec& spec) { return draw(graph, spec.shape, mean, stddev, drawing(spec, seed)); };
}

Output drawn_normal(Graph& graph, const Shape& shape, double mean, double stddev, RandomOptions options) {
  return troupe::random_normal(graph, shape, mean, stddev, std::move(options));
}
Output drawn_truncated(Graph& graph, const Shape& shape, double mean, double stddev, RandomOptions options) {
  return troupe::truncated_normal(graph, shape, mean, stddev, std::move(options));
}

// q of the decomposition q r of a normal matrix a, with a positive diagonal of r, is uniformly distributed among the
// orthonormal ones (Mezzadri 2007). With a' a = l l' (Cholesky), q' is l^-1 a'. In double precision: a' a squares the
// condition number of a.
InitializerFunction orthonormal(const Attributes& options) {
  return [gain = options.real("gain"), seed = options.integer("seed")](Graph& graph, const WeightSpec& spec) {
    if (spec.shape.rank() < 2)
      invalid_argument("orthogonal: the weight is {}, but must have two dimensions or more", spec.shape.to_string());
    const std::int64_t columns = spec.shape[-1], rows = spec.shape.sub(0, spec.shape.rank() - 1).num_elements();
    const Shape tall{std::max(rows, columns), std::min(rows, columns)};
    const Output a = troupe::random_normal(graph, tall, 0, 1, {.dtype = DType::f64, .seed = seed});
    const Output gram = matmul(a, a, {.transpose_a = true});
    const Output factor = cholesky(gram);
    const Output wide = triangular_solve(factor, transpose(a));
    const Output q = rows < columns ? wide : transpose(wide);
    return reshape(cast(q * gain, spec.dtype), spec.shape);
  };
}

InitializerFunction identity_matrix(const Attributes& options) {
  return [gain = options.real("gain")](Graph& graph, const WeightSpec& spec) {
    if (spec.shape.rank() != 2)
      invalid_argument("identity: the weight is {}, but must be a matrix", spec.shape.to_string());
    const Output rows = constant(graph, spec.shape[0]);
    const Output columns = constant(graph, spec.shape[1]);
    return eye(rows, columns, {.dtype = spec.dtype}) * gain;
  };
}

struct InitializerKind {
  const char* name;
  std::vector<const char*> reals;
  bool seeded;
  InitializerFunction (*make)(const Attributes&);
};

const std::vector<InitializerKind>& initializer_kinds() {
  static const std::vector<InitializerKind> kinds = {
      {"zeros", {}, false, filled_with_zeros},
      {"ones", {}, false, filled_with_ones},
      {"constant", {"value"}, false, filled_with_constant},
      {"glorot_uniform", {}, true, scaled_uniform<fan_sum, 6>},
      {"he_uniform", {}, true, scaled_uniform<fan_in, 6>},
      {"lecun_uniform", {}, true, scaled_uniform<fan_in, 3>},
      {"glorot_normal", {}, true, scaled_normal<fan_sum, 2>},
      {"he_normal", {}, true, scaled_normal<fan_in, 2>},
      {"lecun_normal", {}, true, scaled_normal<fan_in, 1>},
      {"random_uniform", {"low", "high"}, true, uniform_between},
      {"random_normal", {"mean", "stddev"}, true, normal_around<drawn_normal>},
      {"truncated_normal", {"mean", "stddev"}, true, normal_around<drawn_truncated>},
      {"orthogonal", {"gain"}, true, orthonormal},
      {"identity", {"gain"}, false, identity_matrix},
  };
  return kinds;
}

Output norms_of(Output weight, const Constraint& constraint) {
  return reduce_l2(weight, constraint.axes, {.keep_dims = true});
}

// Weights times `wanted / norm`; Keras' guard against a norm of 0.
Output with_norms(Output weight, Output wanted, Output norms) {
  constexpr double kTiny = 1e-7;
  const Output scale = wanted / (norms + kTiny);
  return weight * scale;
}

}  // namespace

Initializer::Initializer(std::string kind, Attributes options) : kind_(std::move(kind)), options_(std::move(options)) {
  for (const InitializerKind& known : initializer_kinds()) {
    if (kind_ != known.name) continue;
    if (options_.all().size() != known.reals.size() + (known.seeded ? 1 : 0))
      invalid_argument("initializer '{}' has {} options, but {} are given", kind_,
                       known.reals.size() + (known.seeded ? 1 : 0), options_.all().size());
    for (const char* option : known.reals)
      if (!std::isfinite(options_.real(option)))
        invalid_argument("initializer '{}': {} must be finite, not {}", kind_, option, options_.real(option));
    function_ = known.make(options_);
    return;
  }
  fail(Code::not_found, "there is no initializer '{}'", kind_);
}

namespace initializers {

Initializer zeros() { return {"zeros", {}}; }
Initializer ones() { return {"ones", {}}; }
Initializer constant(double value) { return {"constant", {{"value", value}}}; }
Initializer glorot_uniform(std::int64_t seed) { return {"glorot_uniform", {{"seed", seed}}}; }
Initializer he_uniform(std::int64_t seed) { return {"he_uniform", {{"seed", seed}}}; }
Initializer lecun_uniform(std::int64_t seed) { return {"lecun_uniform", {{"seed", seed}}}; }
Initializer glorot_normal(std::int64_t seed) { return {"glorot_normal", {{"seed", seed}}}; }
Initializer he_normal(std::int64_t seed) { return {"he_normal", {{"seed", seed}}}; }
Initializer lecun_normal(std::int64_t seed) { return {"lecun_normal", {{"seed", seed}}}; }
Initializer random_uniform(double low, double high, std::int64_t seed) {
  return {"random_uniform", {{"low", low}, {"high", high}, {"seed", seed}}};
}
Initializer random_normal(double mean, double stddev, std::int64_t seed) {
  return {"random_normal", {{"mean", mean}, {"stddev", stddev}, {"seed", seed}}};
}
Initializer truncated_normal(double mean, double stddev, std::int64_t seed) {
  return {"truncated_normal", {{"mean", mean}, {"stddev", stddev}, {"seed", seed}}};
}
Initializer orthogonal(double gain, std::int64_t seed) { return {"orthogonal", {{"gain", gain}, {"seed", seed}}}; }
Initializer identity(double gain) { return {"identity", {{"gain", gain}}}; }

}  // namespace initializers

Output penalty(Output weight, const Regularizer& regularizer) {
  if (regularizer.l1 == 0) return sum_square(weight) * regularizer.l2;
  const Output first = reduce_l1(weight) * regularizer.l1;
  return regularizer.l2 == 0 ? first : first + sum_square(weight) * regularizer.l2;
}

namespace constraints {

Constraint max_norm(double limit, Axes axes) {
  return {.kind = Constraint::Kind::max_norm, .high = limit, .axes = std::move(axes)};
}
Constraint min_max_norm(double low, double high, double rate, Axes axes) {
  return {.kind = Constraint::Kind::min_max_norm, .low = low, .high = high, .rate = rate, .axes = std::move(axes)};
}
Constraint unit_norm(Axes axes) { return {.kind = Constraint::Kind::unit_norm, .axes = std::move(axes)}; }
Constraint non_negative() { return {.kind = Constraint::Kind::non_negative}; }

}  // namespace constraints

Output constrained(Output weight, const Constraint& constraint) {
  using Kind = Constraint::Kind;
  if (constraint.kind == Kind::none) return weight;
  if (constraint.kind == Kind::non_negative) return relu(weight);
  const Output norms = norms_of(weight, constraint);
  if (constraint.kind == Kind::unit_norm) return with_norms(weight, ones_like(norms), norms);
  const double low = constraint.kind == Kind::max_norm ? 0 : constraint.low;
  const Output clipped = clip(norms, low, constraint.high);
  if (constraint.kind == Kind::max_norm || constraint.rate == 1) return with_norms(weight, clipped, norms);
  const Output part = clipped * constraint.rate;
  return with_norms(weight, part + norms * (1 - constraint.rate), norms);
}

Output constrain(const VariableRef& variable, const Constraint& constraint) {
  static constexpr std::string_view kKinds[] = {"none", "max_norm", "min_max_norm", "unit_norm", "non_negative"};
  Graph& graph = *variable.handle.graph;
  const Node& handle = variable.handle.source();
  return add_target(graph, {.op = "ConstrainVariable",
                            .name = "constrain/" + variable.name,
                            .inputs = {variable.handle},
                            .attributes = {{"T", variable.dtype},
                                           {"kind", std::string(kKinds[static_cast<int>(constraint.kind)])},
                                           {"low", constraint.low},
                                           {"high", constraint.high},
                                           {"rate", constraint.rate},
                                           {"axes", constraint.axes}},
                            .device = handle.device,
                            .colocate_with = handle.name});
}

VariableRef VariablePool::get(Graph& graph, const std::string& name, const WeightSpec& spec,
                              const WeightOptions& options) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    const VariableRef& known = variables_[found->second];
    if (known.handle.graph != &graph)
      invalid_argument("variable '{}' belongs to another graph; a pool serves one graph", name);
    if (known.dtype != spec.dtype || !(known.shape == spec.shape))
      invalid_argument("variable '{}' is {}{}, but {}{} is needed here", name, troupe::name(known.dtype),
                       known.shape.to_string(), troupe::name(spec.dtype), spec.shape.to_string());
    return known;
  }
  if (!options.initializer) invalid_argument("variable '{}' has no initializer", name);
  if (!is_floating(spec.dtype))
    invalid_argument("variable '{}': weights must be floating, but the input is {}", name, troupe::name(spec.dtype));
  std::optional<InitScope> init;
  if (graph.is_eager()) init.emplace();
  // Another model may have a variable of this name in the same scope.
  const std::string full = graph.unique_name(name.substr(name.rfind('/') + 1));
  const std::string local = full.substr(graph.current_scope().size());
  Output initial_value;
  {
    const auto scope = graph.scope(local);
    initial_value = options.initializer(graph, spec);
  }
  const VariableRef created = variable(graph, {.name = local,
                                               .initial_value = initial_value,
                                               .shape = spec.shape,
                                               .trainable = spec.trainable,
                                               .on_demand = spec.on_demand || options.on_demand});
  add(name, created, spec.trainable);
  if (spec.trainable && options.constraint) constrained_.push_back({created, options.constraint});
  return created;
}

void VariablePool::add(const std::string& name, const VariableRef& variable, bool trainable) {
  if (!by_name_.emplace(name, variables_.size()).second)
    fail(Code::already_exists, "the pool has a variable '{}' already", name);
  variables_.push_back(variable);
  if (trainable) trainable_.push_back(variable);
}

}  // namespace troupe
