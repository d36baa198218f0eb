#include "troupe/graph/layers/losses.hpp"

#include <array>
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
  if (!x.shape().compatible_with(targets.shape()))
    invalid_argument("{}: cannot compare '{}' and '{}' of shapes {} and {}", what, x.name(), targets.name(),
                     x.shape().to_string(), targets.shape().to_string());
}

// Targets are classes, one for each row of the outputs [n,...,c].
void require_classes(const char* what, Output outputs, Output targets) {
  const Shape& rows = outputs.shape();
  if (rows.rank() < 2 || !rows.sub(0, rows.rank() - 1).compatible_with(targets.shape()))
    invalid_argument("{}: the outputs '{}' {} need a dimension of classes behind those of the targets '{}' {}", what,
                     outputs.name(), rows.to_string(), targets.name(), targets.shape().to_string());
}

Output squared_error(Output outputs, Output targets) {
  require_alike("mean squared error", outputs, targets);
  return squared_difference(outputs, targets);
}

// [n,...,c] -> [n,...]; [n] stays.
Output sum_per_row(Output x) { return x.shape().rank() == 1 ? x : troupe::sum(x, {-1}); }

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
  const Output right = sum_per_row(outputs * targets);
  const Output is_wrong = equal(targets, scalar_like(targets, 0));
  const Output wrong = select(is_wrong, outputs, scalar_like(outputs, -std::numeric_limits<double>::infinity()));
  return relu(max(wrong, {-1}) - right + 1.0);
}

Output cosine_error(Output outputs, Output targets) {
  const Output a = l2_normalize(outputs, {-1});
  const Output b = l2_normalize(targets, {-1});
  return 1.0 - sum_per_row(a * b);
}

Output kl_error(Output outputs, Output targets) {
  const Output logs = log(maximum(outputs, scalar_like(outputs, kTiny)));
  const Output cross = targets * logs;
  return sum_per_row(xlogy(targets, targets) - cross);
}

Output percentage_error(Output outputs, Output targets) {
  const Output size = maximum(abs(targets), scalar_like(targets, kTiny));
  return abs((outputs - targets) / size) * 100.0;
}

Output logarithmic_error(Output outputs, Output targets) {
  const Output a = log1p(maximum(outputs, scalar_like(outputs, kTiny)));
  const Output b = log1p(maximum(targets, scalar_like(targets, kTiny)));
  return squared_difference(a, b);
}

Output binary_focal_error(Output logits, Output targets, const LossOptions& options) {
  const Output entropy = troupe::sigmoid_cross_entropy(logits, targets);
  const Output p = sigmoid(logits);
  // The probability of the wrong answer.
  const Output both = p * targets * 2.0;
  const Output wrong = p + targets - both;
  const Output error = pow(wrong, scalar_like(wrong, options.gamma)) * entropy;
  if (!options.balance_classes) return error;
  const Output weight = targets * (2 * options.alpha - 1) + (1 - options.alpha);
  return weight * error;
}

Output class_entropy(Output logits, Output classes, const LossOptions& options) {
  return troupe::sparse_softmax_cross_entropy(
      logits, classes,
      {.ignore_index = options.ignore_class.value_or(SparseCrossEntropyOptions::kNoLabel),
       .label_smoothing = options.label_smoothing});
}

Output focal_error(Output logits, Output classes, LossOptions options) {
  options.label_smoothing = 0;
  const Output entropy = class_entropy(logits, classes, options);
  const Output wrong = -expm1(-entropy);
  return pow(wrong, scalar_like(wrong, options.gamma)) * entropy * options.alpha;
}

Output categorical_focal_error(Output logits, Output targets, const LossOptions& options) {
  if (const double s = options.label_smoothing; s != 0) {
    const std::int64_t classes = logits.shape().dim(-1);
    if (classes < 1)
      invalid_argument("categorical_focal: the number of classes of '{}' must be known to smooth labels",
                       logits.name());
    targets = targets * (1 - s) + s / static_cast<double>(classes);
  }
  const Output logs = log_softmax(logits);
  const Output wrong = -expm1(logs);
  const Output factor = pow(wrong, scalar_like(wrong, options.gamma)) * options.alpha;
  return -sum_per_row(factor * targets * logs);
}

// The probability of the right class is exp(-entropy).
Output generalized_error(Output logits, Output classes, LossOptions options) {
  if (!(options.q > 0 && options.q <= 1))
    invalid_argument("generalized_cross_entropy: q is {}, but must be in (0, 1]", options.q);
  options.label_smoothing = 0;
  return -expm1(class_entropy(logits, classes, options) * -options.q) / options.q;
}

Output dice_error(Output outputs, Output targets) {
  const Output overlap = sum_per_example(outputs * targets);
  const Output total = sum_per_example(outputs + targets);
  const Output twice = overlap * 2.0;
  return 1.0 - twice / (total + kTiny);
}

Output tversky_error(Output outputs, Output targets, const LossOptions& options) {
  const Output both = outputs * targets;
  const Output overlap = sum_per_example(both);
  const Output hits = sum_per_example(outputs - both) * options.wrong_hit_weight;
  const Output misses = sum_per_example(targets - both) * options.miss_weight;
  return 1.0 - overlap / (overlap + hits + misses + kTiny);
}

// log(sum(exp(x))) over the pairs of a row where `pairs` is true, far below all else if there are none: not infinite,
// since that would have no gradient.
Output log_sum_of_pairs(Output x, Output pairs) {
  return log_sum_exp(select(pairs, x, scalar_like(x, x.dtype() == DType::f16 ? -3e4 : -1e30)), {1});
}

// Formula (6) of the paper: optimal similarities 1 + m and -m, margins 1 - m and m; here of distances 1 - similarity.
Output circle_error(Output outputs, Output classes, const LossOptions& options) {
  if (outputs.shape().rank() != 2)
    invalid_argument("circle: the outputs '{}' are {}, but must be embeddings [n,d]", outputs.name(),
                     outputs.shape().to_string());
  const double m = options.margin;
  const Output distance = relu(1.0 - matmul(outputs, outputs, {.transpose_b = true}));
  const Output ids = cast(classes, DType::i64);
  const Output row = expand_dims(ids, {0});
  const Output column = expand_dims(ids, {1});
  const Output alike = equal(column, row);
  const Output places = range(element_count(ids));
  const Output place_row = expand_dims(places, {0});
  const Output place_column = expand_dims(places, {1});
  const Output others = logical_and(alike, not_equal(place_column, place_row));
  // Weights are parts of the formula, through which its gradient passes, as in Keras.
  const Output pull_weight = relu(distance + m);
  const Output pull = pull_weight * (distance - m) * options.circle_scale;
  const Output push_weight = relu(1 + m - distance);
  const Output push = push_weight * (1 - m - distance) * options.circle_scale;
  const Output pulls = log_sum_of_pairs(pull, others);
  const Output pushes = log_sum_of_pairs(push, logical_not(alike));
  return softplus(pulls + pushes);
}

bool takes_classes(Loss loss) {
  return loss == Loss::sparse_softmax_cross_entropy || loss == Loss::focal || loss == Loss::generalized_cross_entropy;
}
bool is_sigmoid(Loss loss) { return loss == Loss::sigmoid_cross_entropy || loss == Loss::binary_focal; }
bool takes_logits(Loss loss) {
  return takes_classes(loss) || is_sigmoid(loss) || loss == Loss::softmax_cross_entropy ||
         loss == Loss::categorical_focal;
}

// Logits of probabilities: softmax(log p) = p / sum(p), sigmoid(log p - log(1 - p)) = p.
Output logits_of(Loss loss, Output probabilities) {
  const Output p = clip(probabilities, kTiny, 1 - kTiny);
  if (!is_sigmoid(loss)) return log(p);
  const Output q = log1p(-p);
  return log(p) - q;
}

// Of each row or element.
Output error_of(Loss loss, Output outputs, Output targets, const LossOptions& options) {
  switch (loss) {
    case Loss::sparse_softmax_cross_entropy:
      return class_entropy(outputs, targets, options);
    case Loss::softmax_cross_entropy:
      return troupe::softmax_cross_entropy(outputs, targets, {.label_smoothing = options.label_smoothing});
    case Loss::sigmoid_cross_entropy:
      return troupe::sigmoid_cross_entropy(outputs, targets);
    case Loss::mean_squared_error:
      return squared_error(outputs, targets);
    case Loss::mean_absolute_error:
      return abs(outputs - targets);
    case Loss::huber:
      return huber_error(outputs - targets, options.delta);
    case Loss::log_cosh:
      return log_cosh_error(outputs - targets);
    case Loss::hinge:
      return hinge_error(outputs, targets);
    case Loss::squared_hinge:
      return square(hinge_error(outputs, targets));
    case Loss::poisson:
      return outputs - targets * log(outputs + kTiny);
    case Loss::kl_divergence:
      return kl_error(outputs, targets);
    case Loss::categorical_hinge:
      return categorical_hinge_error(outputs, targets);
    case Loss::cosine_distance:
      return cosine_error(outputs, targets);
    case Loss::binary_focal:
      return binary_focal_error(outputs, targets, options);
    case Loss::focal:
      return focal_error(outputs, targets, options);
    case Loss::mean_absolute_percentage_error:
      return percentage_error(outputs, targets);
    case Loss::mean_squared_logarithmic_error:
      return logarithmic_error(outputs, targets);
    case Loss::categorical_focal:
      return categorical_focal_error(outputs, targets, options);
    case Loss::generalized_cross_entropy:
      return generalized_error(outputs, targets, options);
    case Loss::dice:
      return dice_error(outputs, targets);
    case Loss::tversky:
      return tversky_error(outputs, targets, options);
    case Loss::circle:
      return circle_error(outputs, targets, options);
  }
  invalid_argument("unknown loss {}", static_cast<int>(loss));
}

void check_loss_shapes(Loss loss, Output outputs, Output targets) {
  require_examples(outputs);
  if (!targets.valid()) invalid_argument("loss: the targets are not a tensor");
  if (takes_classes(loss) || loss == Loss::circle) {
    require_classes("loss", outputs, targets);
  } else if (loss != Loss::mean_squared_error) {
    require_alike("loss", outputs, targets);
  }
  const bool of_rows = loss == Loss::softmax_cross_entropy || loss == Loss::categorical_hinge ||
                       loss == Loss::cosine_distance || loss == Loss::categorical_focal;
  if (of_rows && outputs.shape().rank() < 2)
    invalid_argument("{}: the outputs '{}' are {}, but must be rows [n,...,c]", name(loss), outputs.name(),
                     outputs.shape().to_string());
}

}  // namespace

std::string_view name(Loss loss) {
  constexpr std::array kNames = {
      "sparse_softmax_cross_entropy",
      "softmax_cross_entropy",
      "sigmoid_cross_entropy",
      "mean_squared_error",
      "mean_absolute_error",
      "huber",
      "log_cosh",
      "hinge",
      "squared_hinge",
      "poisson",
      "kl_divergence",
      "categorical_hinge",
      "cosine_distance",
      "binary_focal",
      "focal",
      "mean_absolute_percentage_error",
      "mean_squared_logarithmic_error",
      "categorical_focal",
      "generalized_cross_entropy",
      "dice",
      "tversky",
      "circle",
  };
  static_assert(kNames.size() == static_cast<std::size_t>(Loss::circle) + 1);
  return kNames.at(static_cast<std::size_t>(loss));
}

namespace losses {

Output per_example(Loss loss, Output outputs, Output targets, LossOptions options) {
  check_loss_shapes(loss, outputs, targets);
  const DType dtype = outputs.dtype();
  if (takes_logits(loss) && !options.from_logits) {
    // 16 bits cannot hold 1 - 1e-7.
    if (dtype == DType::f16 || dtype == DType::bf16) outputs = cast(outputs, DType::f32);
    outputs = logits_of(loss, outputs);
  }
  const bool soft = !takes_classes(loss) && loss != Loss::circle;
  if (soft && targets.dtype() != outputs.dtype()) targets = cast(targets, outputs.dtype());
  if (is_sigmoid(loss) && options.label_smoothing != 0)
    targets = targets * (1 - options.label_smoothing) + options.label_smoothing / 2;
  return cast(mean_per_example(error_of(loss, outputs, targets, options)), dtype);
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

Output weighted_mean(Output each, Output weights) {
  require_examples(each);
  if (!weights.valid()) invalid_argument("weighted_mean: the weights are not a tensor");
  require_alike("weighted_mean", each, weights);
  return troupe::mean(each * cast(weights, each.dtype()));
}

Output class_weights(Output classes, const std::vector<double>& weights, DType dtype) {
  if (!classes.valid() || weights.empty())
    invalid_argument("class_weights: needs classes, and a weight for each class");
  const Shape shape{static_cast<std::int64_t>(weights.size())};
  const Output table = constant(*classes.graph, Tensor::of<double>(shape, weights));
  return gather(cast(table, dtype), classes);
}

}  // namespace losses

namespace metrics {

Output correct_count(Output logits, Output labels, Name name) {
  const Output classes = arg_max(logits, -1);
  require_alike("correct_count", classes, labels);
  const Output right = equal(classes, cast(labels, DType::i64));
  return sum(cast(right, DType::i64), {}, {.name = std::move(name)});
}

}  // namespace metrics
}  // namespace troupe
