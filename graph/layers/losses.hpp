// Losses and metrics. `outputs` are a model's results for n examples, `targets` the expected ones; a loss is floating,
// with the dtype of the outputs. Formulas are those of Keras 3, except where a comment says otherwise.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// Outputs and targets are [n,...] where the comment gives no shape. Those of classes have them along the last
// dimension; their outputs, and those of `sigmoid_cross_entropy`, `binary_focal`, are logits, or probabilities with
// LossOptions::from_logits = false.
enum class Loss {
  sparse_softmax_cross_entropy,  // outputs [n,...,c]; targets: classes [n,...], i32 or i64
  softmax_cross_entropy,         // outputs [n,...,c]; targets: probabilities [n,...,c], rows sum to 1
  sigmoid_cross_entropy,         // targets: probabilities
  mean_squared_error,
  mean_absolute_error,
  huber,              // d^2 / 2 up to |d| = delta, then delta (|d| - delta / 2)
  log_cosh,           // log(cosh(outputs - targets))
  hinge,              // targets -1 and 1: max(1 - targets outputs, 0)
  squared_hinge,      // its square
  poisson,            // outputs - targets log(outputs)
  kl_divergence,      // outputs and targets: probabilities [n,...,c]; sum of targets log(targets / outputs)
  categorical_hinge,  // targets: [n,...,c], one of each row 1, others 0; max(1 + greatest wrong output - right output,
                      // 0)
  cosine_distance,    // vectors [n,...,d]: 1 - cosine of the angle between outputs and targets (Keras: without the 1)
  binary_focal,       // targets 0 and 1 (Lin et al. 2017)
  focal,              // outputs [n,...,c]; targets: classes [n,...], i32 or i64
  mean_absolute_percentage_error,  // 100 |outputs - targets| / |targets|
  mean_squared_logarithmic_error,  // (log(1 + outputs) - log(1 + targets))^2, negative numbers count as 0
  categorical_focal,               // outputs [n,...,c]; targets: probabilities [n,...,c]
  generalized_cross_entropy,       // outputs [n,...,c]; targets: classes [n,...]; (1 - p^q) / q of the right class's
                                   // probability p (Zhang & Sabuncu 2018)
  dice,     // 1 - 2 overlap / (sum of outputs + sum of targets) of an example's probabilities (Milletari et al. 2016)
  tversky,  // 1 - overlap / (overlap + wrong hits and misses, weighted) (Salehi et al. 2017)
  circle,   // outputs: embeddings [n,d] of norm 1; targets: classes [n] (Sun et al. 2020); of all pairs of the batch
};

// "mean_squared_error", ...
std::string_view name(Loss loss);

struct LossOptions {
  bool from_logits = true;     // of losses of logits or probabilities; the latter are kept in [1e-7, 1 - 1e-7]
  double label_smoothing = 0;  // s: targets (1 - s) + s / c of the softmax cross entropies and categorical_focal, with
                               // c = 2 of the sigmoid ones
  std::optional<std::int64_t> ignore_class{};  // of losses of classes: such targets have loss 0 and gradient 0
  double delta = 1;                            // of huber
  double gamma = 2;               // of focal losses: (1 - p)^gamma with the probability p of the right answer
  double alpha = 0.25;            // of focal losses: weight; of binary_focal, that of positive labels
  bool balance_classes = true;    // of binary_focal: whether positive labels weigh alpha, negative ones 1 - alpha
  double q = 0.5;                 // of generalized_cross_entropy, in (0, 1]
  double wrong_hit_weight = 0.5;  // of tversky: of outputs where there is no target
  double miss_weight = 0.5;       // of tversky: of targets that the outputs miss
  double circle_scale = 80;       // of circle
  double margin = 0.4;            // of circle
};

namespace losses {

// [n]: the loss of each example, averaged over its elements (rows, where the last dimension is that of the classes or
// of a vector) if it has several. Throws invalid_argument for outputs of unknown rank or without dimension n.
Output per_example(Loss loss, Output outputs, Output targets, LossOptions options = {});

// Scalars: the mean of per_example() over the examples.
Output mean(Loss loss, Output outputs, Output targets, LossOptions options = {});
Output sparse_softmax_cross_entropy(Output logits, Output labels);
Output softmax_cross_entropy(Output logits, Output labels);
Output sigmoid_cross_entropy(Output logits, Output labels);
Output mean_squared_error(Output outputs, Output targets);

// Losses [n] of weighted examples -> sum(weights losses) / n: weights [n] scale each example's gradient, and n counts
// also examples of weight 0 ("sum_over_batch_size" of Keras).
Output weighted_mean(Output each, Output weights);
// The weight of each example's class: classes [n,...], i32 or i64, and one weight per class -> [n,...].
Output class_weights(Output classes, const std::vector<double>& weights, DType dtype = DType::f32);

}  // namespace losses

// Sums over examples, from which means over any number of batches can be computed.
namespace metrics {

// The number of examples whose largest logit (the first of several) is at their label: logits [n,c], labels [n] of an
// integer dtype -> i64 scalar.
Output correct_count(Output logits, Output labels, Name name = {});

}  // namespace metrics
}  // namespace troupe
