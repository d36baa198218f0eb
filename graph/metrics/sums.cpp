#include "troupe/graph/metrics/sums.hpp"

#include <troupe/graph/builder/builder.hpp>

namespace troupe::metrics {
namespace {

void check_tensor(std::string_view metric, std::string_view what, Output x) {
  if (!x.valid()) invalid_argument("metric '{}': the {} are not a tensor", metric, what);
  if (x.shape().rank() < 1)
    invalid_argument("metric '{}': the {} '{}' are {}, but must have a known rank and a dimension for the examples",
                     metric, what, x.name(), x.shape().to_string());
}

// Weights [n,...] must have the leading dimensions of x.
void check_weights(std::string_view metric, Output weights, Output x) {
  const Shape &own = weights.shape(), &shape = x.shape();
  if (own.rank() > shape.rank() || !own.compatible_with(shape.sub(0, own.rank())))
    invalid_argument("metric '{}': the weights '{}' are {}, but must have leading dimensions of {}", metric,
                     weights.name(), own.to_string(), shape.to_string());
}

// The mean over dimensions from `first` on.
Output mean_behind(Output x, int first) {
  Integers axes;
  for (int axis = first; axis < x.shape().rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? x : troupe::mean(x, std::move(axes));
}

}  // namespace

void check_inputs(std::string_view metric, const MetricInputs& in, bool needs_targets) {
  check_tensor(metric, "outputs", in.outputs);
  if (needs_targets) check_tensor(metric, "targets", in.targets);
  if (!in.weights.valid()) return;
  check_tensor(metric, "weights", in.weights);
  if (!is_floating(in.weights.dtype()))
    invalid_argument("metric '{}': the weights '{}' are {}, but must be floating", metric, in.weights.name(),
                     name(in.weights.dtype()));
}

void check_alike(std::string_view metric, const MetricInputs& in) {
  check_inputs(metric, in);
  // Broadcasting [n] with [n,1] would be a silent mistake.
  if (!in.outputs.shape().compatible_with(in.targets.shape()))
    invalid_argument("metric '{}': cannot compare outputs '{}' {} with targets '{}' {}: reshape one of them", metric,
                     in.outputs.name(), in.outputs.shape().to_string(), in.targets.name(),
                     in.targets.shape().to_string());
}

std::int64_t known_columns(std::string_view metric, const MetricInputs& in) {
  const Shape& shape = in.outputs.shape();
  if (shape.rank() < 2 || shape.dim(-1) == kUnknown)
    invalid_argument("metric '{}': the outputs '{}' are {}, but need a last dimension of known size", metric,
                     in.outputs.name(), shape.to_string());
  return shape.dim(-1);
}

Output as_f64(Output x) { return cast(x, DType::f64); }
Output as_wide(Output x) { return x.dtype() == DType::f64 ? x : cast(x, DType::f32); }

Output weights_like(std::string_view metric, const MetricInputs& in, Output like) {
  if (!in.weights.valid()) return ones_like(as_f64(like));
  check_weights(metric, in.weights, like);
  Output weights = as_f64(in.weights);
  Integers axes;
  for (int axis = weights.shape().rank(); axis < like.shape().rank(); ++axis) axes.push_back(axis);
  if (axes.empty()) return weights;
  return broadcast_like(expand_dims(weights, std::move(axes)), like);
}

Output weighted_sums(std::string_view metric, const MetricInputs& in, Output values) {
  Output each = as_f64(values), total{}, count{};
  if (in.weights.valid()) {
    check_weights(metric, in.weights, values);
    const Output weights = as_f64(in.weights);
    each = mean_behind(each, weights.shape().rank()) * weights;
    total = troupe::sum(mean_behind(each, 1));
    count = troupe::sum(mean_behind(weights, 1));
  } else {
    each = mean_behind(each, 1);
    total = troupe::sum(each);
    count = as_f64(element_count(each));
  }
  return stack({total, count}, 0);
}

Output class_numbers(Output classes_or_rows, int rank) {
  if (classes_or_rows.shape().rank() > rank) return arg_max(classes_or_rows, -1);
  return cast(classes_or_rows, DType::i64);
}

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

Tensor scalar_result(double value) { return Tensor::scalar(value); }
Tensor vector_result(std::span<const double> values) { return Tensor::of<double>(Shape{std::ssize(values)}, values); }

}  // namespace troupe::metrics
