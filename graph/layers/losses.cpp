#include "troupe/graph/layers/losses.hpp"

#include <limits>

#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

// [n,...] -> [n].
Output mean_per_example(Output x) {
  Integers axes;
  for (int axis = 1; axis < x.shape().rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? x : troupe::mean(x, std::move(axes));
}

void require_examples(Output outputs) {
  if (!outputs.valid()) invalid_argument("loss: the outputs are not a tensor");
  if (outputs.shape().rank() < 1)
    invalid_argument("loss: the outputs '{}' are {}, but must have a known rank and a dimension for the examples",
                     outputs.name(), outputs.shape().to_string());
}

// Broadcasting [n] with [n,1] would be a silent mistake.
void require_alike(const char* what, Output x, Output targets) {
  if (targets.valid() && !x.shape().compatible_with(targets.shape()))
    invalid_argument("{}: cannot compare '{}' and '{}' of shapes {} and {}", what, x.name(), targets.name(),
                     x.shape().to_string(), targets.shape().to_string());
}

Output squared_error(Output outputs, Output targets) {
  require_alike("mean squared error", outputs, targets);
  return squared_difference(outputs, targets);
}

// [n,...] -> [n].
Output sum_per_example(Output x) {
  Integers axes;
  for (int axis = 1; axis < x.shape().rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? x : troupe::sum(x, std::move(axes));
}

// Keeps logarithms of probabilities and rates finite.
constexpr double kTiny = 1e-7;

Output huber_error(Output difference, double delta) {
  const Output size = abs(difference);
  const Output quadratic = minimum(size, scalar_like(size, delta));
  // q^2 / 2 + delta (|d| - q) has the right value and derivative on both sides.
  const Output linear = (size - quadratic) * delta;
  return square(quadratic) * 0.5 + linear;
}

// log(cosh(d)) = |d| + log(1 + exp(-2 |d|)) - log(2).
Output log_cosh_error(Output difference) {
  const Output size = abs(difference);
  return size + softplus(size * -2.0) - 0.6931471805599453;
}

Output hinge_error(Output outputs, Output targets) { return relu(1.0 - targets * outputs); }

Output categorical_hinge_error(Output outputs, Output targets) {
  const Output right = sum_per_example(outputs * targets);
  const Output is_wrong = equal(targets, scalar_like(targets, 0));
  const Output wrong = select(is_wrong, outputs, scalar_like(outputs, -std::numeric_limits<double>::infinity()));
  return relu(max(wrong, {1}) - right + 1.0);
}

Output cosine_error(Output outputs, Output targets) {
  Integers axes;
  for (int axis = 1; axis < outputs.shape().rank(); ++axis) axes.push_back(axis);
  const Output a = l2_normalize(outputs, axes);
  const Output b = l2_normalize(targets, axes);
  return 1.0 - sum_per_example(a * b);
}

Output binary_focal_error(Output logits, Output targets, const LossOptions& options) {
  const Output entropy = troupe::sigmoid_cross_entropy(logits, targets);
  const Output p = sigmoid(logits);
  // The probability of the wrong answer.
  const Output both = p * targets * 2.0;
  const Output wrong = p + targets - both;
  const Output weight = targets * (2 * options.alpha - 1) + (1 - options.alpha);
  return weight * pow(wrong, scalar_like(wrong, options.gamma)) * entropy;
}

Output focal(Output logits, Output classes, const LossOptions& options) {
  const Output entropy = troupe::sparse_softmax_cross_entropy(logits, classes);
  const Output wrong = -expm1(-entropy);
  return pow(wrong, scalar_like(wrong, options.gamma)) * entropy * options.alpha;
}

Output of_elements(Loss loss, Output outputs, Output targets, const LossOptions& options) {
  switch (loss) {
    case Loss::mean_absolute_error:
      return mean_per_example(abs(outputs - targets));
    case Loss::huber:
      return mean_per_example(huber_error(outputs - targets, options.delta));
    case Loss::log_cosh:
      return mean_per_example(log_cosh_error(outputs - targets));
    case Loss::hinge:
      return mean_per_example(hinge_error(outputs, targets));
    case Loss::squared_hinge:
      return mean_per_example(square(hinge_error(outputs, targets)));
    case Loss::poisson:
      return mean_per_example(outputs - targets * log(outputs + kTiny));
    case Loss::kl_divergence: {
      const Output logs = log(maximum(outputs, scalar_like(outputs, kTiny)));
      const Output cross = targets * logs;
      return sum_per_example(xlogy(targets, targets) - cross);
    }
    case Loss::categorical_hinge:
      return categorical_hinge_error(outputs, targets);
    case Loss::cosine_distance:
      return cosine_error(outputs, targets);
    case Loss::binary_focal:
      return mean_per_example(binary_focal_error(outputs, targets, options));
    default:
      invalid_argument("unknown loss {}", static_cast<int>(loss));
  }
}

}  // namespace

namespace losses {

Output per_example(Loss loss, Output outputs, Output targets, LossOptions options) {
  require_examples(outputs);
  switch (loss) {
    case Loss::sparse_softmax_cross_entropy:
      return troupe::sparse_softmax_cross_entropy(outputs, targets, {.label_smoothing = options.label_smoothing});
    case Loss::softmax_cross_entropy:
      return troupe::softmax_cross_entropy(outputs, targets, {.label_smoothing = options.label_smoothing});
    case Loss::sigmoid_cross_entropy:
      return mean_per_example(troupe::sigmoid_cross_entropy(outputs, targets));
    case Loss::mean_squared_error:
      return mean_per_example(squared_error(outputs, targets));
    case Loss::focal:
      return focal(outputs, targets, options);
    default:
      break;
  }
  require_alike("loss", outputs, targets);
  return of_elements(loss, outputs, targets, options);
}

Output mean(Loss loss, Output outputs, Output targets, LossOptions options) {
  return troupe::mean(per_example(loss, outputs, targets, options));
}
Output sparse_softmax_cross_entropy(Output logits, Output labels) {
  return mean(Loss::sparse_softmax_cross_entropy, logits, labels);
}
Output softmax_cross_entropy(Output logits, Output labels) { return mean(Loss::softmax_cross_entropy, logits, labels); }
Output sigmoid_cross_entropy(Output logits, Output labels) { return mean(Loss::sigmoid_cross_entropy, logits, labels); }
Output mean_squared_error(Output outputs, Output targets) { return mean(Loss::mean_squared_error, outputs, targets); }

}  // namespace losses

namespace metrics {

Output correct_count(Output logits, Output labels, Name name) {
  const Output classes = arg_max(logits, -1);
  require_alike("correct_count", classes, labels);
  const Output right = equal(classes, cast(labels, DType::i64));
  return sum(cast(right, DType::i64), {}, {.name = std::move(name)});
}

Output loss_sum(Output per_example, Name name) {
  if (!per_example.valid()) invalid_argument("loss_sum: the losses are not a tensor");
  const DType wide = per_example.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return sum(cast(per_example, wide), {}, {.name = std::move(name)});
}

}  // namespace metrics
}  // namespace troupe
