#include "troupe/graph/training/network_program.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

bool has_component(const BatchSchema& schema, std::string_view name) {
  return std::ranges::find(schema, name, &BatchComponent::name) != schema.end();
}

// Losses of logits, whose outputs must not be probabilities.
bool takes_logits(Loss kind, const LossOptions& options) {
  switch (kind) {
    case Loss::sparse_softmax_cross_entropy:
    case Loss::softmax_cross_entropy:
    case Loss::focal:
    case Loss::categorical_focal:
    case Loss::generalized_cross_entropy:
      return options.from_logits;
    default:
      return false;
  }
}

// Names taken by targets and weights.
std::set<std::string, std::less<>> named_components(const std::vector<OutputTraining>& outputs) {
  std::set<std::string, std::less<>> out;
  for (const OutputTraining& o : outputs) {
    out.insert(o.target);
    out.insert(o.sample_weights);
    out.insert(o.output);
  }
  return out;
}

void check_input(const InputSpec& input, const BatchComponent& component) {
  if (component.whole)
    invalid_argument(
        "input '{}': '{}' is part of a sparse or ragged batch, but layers take rows of one size: use padded_batch",
        input.name, component.name);
  if (input.dtype == DType::invalid) return;
  if (input.dtype != component.dtype || !input.shape.compatible_with(component.shape))
    invalid_argument("input '{}' takes {}{} of each example, but component '{}' is {}{}", input.name, name(input.dtype),
                     input.shape.to_string(), component.name, name(component.dtype), component.shape.to_string());
}

class NetworkLearning {
 public:
  NetworkLearning(ProgramContext& context, const NetworkTraining& training)
      : c_(context), t_(training), components_(input_components(t_.network, t_.outputs, c_.schema)) {}

  ProgramOutputs run() {
    ExtraLosses extra;
    LayerContext layers = c_.layers();
    layers.losses = &extra;
    NamedOutputs inputs;
    for (std::size_t i = 0; i < components_.size(); ++i)
      inputs.emplace(t_.network.plan().inputs[i].name, c_[components_[i]]);
    results_ = t_.network.apply(layers, inputs);
    for (const OutputTraining& output : t_.outputs) learn(output);
    if (!total_.valid()) invalid_argument("no output of the model has a loss: nothing would be trained");
    for (const Output& term : extra.terms) {
      const auto scope = c_.graph.scope("loss");
      add_term(cast(term, total_.dtype()));
    }
    out_.objectives = {{.name = "loss", .loss = total_, .train = t_.train, .optimizer = t_.optimizer}};
    for (auto& [name, result] : results_) out_.predictions.emplace(name, result);
    return std::move(out_);
  }

 private:
  const NamedOutputs::value_type& result(const std::string& name) const {
    if (name.empty() && results_.size() == 1) return *results_.begin();
    const auto found = results_.find(name);
    if (found != results_.end()) return *found;
    std::string names;
    for (const auto& [other, value] : results_) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", other);
    fail(Code::not_found, "the model has no output '{}'; it has {}", name, names);
  }

  bool several() const {
    return std::ranges::count_if(t_.outputs, [](const OutputTraining& o) { return bool(o.loss); }) > 1;
  }

  Output target_of(const OutputTraining& output, const std::string& name) const {
    if (!output.target.empty()) return c_[output.target];
    if (has_component(c_.schema, name)) return c_[name];
    if (t_.outputs.size() == 1)
      for (const BatchComponent& component : c_.schema)
        if (std::ranges::find(components_, component.name) == components_.end() &&
            component.name != output.sample_weights)
          return c_[component.name];
    fail(Code::not_found, "output '{}' has no target in batches of {}: name a component in OutputTraining::target",
         name, to_string(c_.schema));
  }

  // Scales of losses; no value: none.
  Output weights_of(const OutputTraining& output, Output target, DType dtype) const {
    Output out;
    if (!output.class_weights.empty()) out = losses::class_weights(target, output.class_weights, dtype);
    if (output.sample_weights.empty()) return out;
    const Output samples = cast(c_[output.sample_weights], dtype);
    if (!out.valid()) return samples;
    if (out.shape().rank() != samples.shape().rank())
      invalid_argument("component '{}' {} must have a weight for each class of the target '{}' {}",
                       output.sample_weights, samples.shape().to_string(), target.name(), target.shape().to_string());
    return mul(out, samples);
  }

  void learn(const OutputTraining& output) {
    const auto& [name, outputs] = result(output.output);
    const Output target = target_of(output, name);
    const DType wide = outputs.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Output weights = weights_of(output, target, wide);
    const std::string prefix = several() ? name + "_" : "";
    if (output.loss) add_loss(output, prefix, outputs, target, weights);
    measure(output.metrics, prefix, {.outputs = outputs, .targets = target, .weights = {}});
    measure(output.weighted_metrics, prefix, {.outputs = outputs, .targets = target, .weights = weights});
  }

  void add_loss(const OutputTraining& output, const std::string& prefix, Output outputs, Output target,
                Output weights) {
    if (!std::isfinite(output.weight)) invalid_argument("the weight of a loss must be finite, not {}", output.weight);
    const auto scope = c_.graph.scope(prefix + "loss");
    const Output each = output.loss(outputs, target);
    if (weights.valid() && weights.shape().rank() > 1)
      invalid_argument("weights {} of a loss must have one of each example", weights.shape().to_string());
    const Output loss = weights.valid() ? losses::weighted_mean(each, weights) : mean(each, {}, {.name = "mean"});
    if (several()) {
      const Output count = cast(element_count(each, "examples"), DType::f64);
      const Output sum = mul(cast(loss, DType::f64), count);
      const Output both[] = {reshape(sum, Shape{1}), reshape(count, Shape{1})};
      out_.figures.push_back({.name = prefix + "loss", .sums = concat({both[0], both[1]}, 0)});
    }
    add_term(output.weight == 1 ? loss : mul(loss, scalar_like(loss, output.weight)));
  }

  void add_term(Output term) { total_ = total_.valid() ? add(total_, cast(term, total_.dtype()), "total") : term; }

  void measure(const std::vector<Metric>& metrics, const std::string& prefix, const MetricInputs& inputs) {
    for (const Metric& metric : metrics) {
      const auto scope = c_.graph.scope(prefix + metric.name);
      out_.figures.push_back({.name = prefix + metric.name, .sums = metric.sums(inputs), .result = metric.result});
    }
  }

  ProgramContext& c_;
  const NetworkTraining& t_;
  const std::vector<std::string> components_;  // of the inputs
  NamedOutputs results_;
  Output total_;
  ProgramOutputs out_;
};

}  // namespace

LossFunction::LossFunction(Loss kind, LossOptions options)
    : name_(troupe::name(kind)), each_([kind, options](Output outputs, Output targets) {
        if (takes_logits(kind, options) && is_softmax(outputs))
          invalid_argument(
              "the loss '{}' takes logits, but the model ends in '{}': remove the softmax of the last layer, or set "
              "LossOptions::from_logits to false",
              troupe::name(kind), outputs.source().name);
        return losses::per_example(kind, outputs, targets, options);
      }) {}

Output LossFunction::operator()(Output outputs, Output targets) const {
  const Output each = each_(outputs, targets);
  if (!each.valid() || each.shape().rank() != 1 || !is_floating(each.dtype()))
    invalid_argument(
        "loss '{}' must be floating [n], one of each example, not {}", name_,
        each.valid() ? fmt::format("{}{}", troupe::name(each.dtype()), each.shape().to_string()) : "without a value");
  return each;
}

std::vector<std::string> input_components(const Network& network, const std::vector<OutputTraining>& outputs,
                                          const BatchSchema& schema) {
  const std::vector<InputSpec>& inputs = network.plan().inputs;
  const auto named = named_components(outputs);
  std::vector<std::string> out;
  for (const InputSpec& input : inputs) {
    auto found = std::ranges::find(schema, input.name, &BatchComponent::name);
    if (found == schema.end() && inputs.size() == 1)
      found = std::ranges::find_if(schema, [&](const BatchComponent& c) { return !named.contains(c.name); });
    if (found == schema.end())
      fail(Code::not_found, "input '{}' of the model has no component in batches of {}", input.name, to_string(schema));
    check_input(input, *found);
    out.push_back(found->name);
  }
  return out;
}

Program network_program(NetworkTraining training) {
  return [training = std::move(training)](ProgramContext& context) { return NetworkLearning(context, training).run(); };
}

Program network_predictions(Network network) {
  return [network = std::move(network)](ProgramContext& c) {
    LayerContext layers = c.layers();
    const std::vector<std::string> components = input_components(network, {}, c.schema);
    NamedOutputs inputs;
    for (std::size_t i = 0; i < components.size(); ++i) inputs.emplace(network.plan().inputs[i].name, c[components[i]]);
    ProgramOutputs out;
    for (auto& [name, result] : network.apply(layers, inputs)) out.predictions.emplace(name, result);
    return out;
  };
}

}  // namespace troupe
