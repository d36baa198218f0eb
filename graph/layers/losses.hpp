// Losses and metrics. `outputs` are a model's results for n examples, `targets` the expected ones; a loss is floating,
// with the dtype of the outputs.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

enum class Loss {
  sparse_softmax_cross_entropy,  // outputs: logits [n,c]; targets: classes [n], i32 or i64
  softmax_cross_entropy,         // outputs: logits [n,c]; targets: probabilities [n,c], rows sum to 1
  sigmoid_cross_entropy,         // outputs: logits [n,...]; targets: probabilities [n,...]
  mean_squared_error,            // outputs and targets: [n,...]
  mean_absolute_error,
  huber,              // d^2 / 2 up to |d| = delta, then delta (|d| - delta / 2)
  log_cosh,           // log(cosh(outputs - targets))
  hinge,              // targets -1 and 1: max(1 - targets outputs, 0)
  squared_hinge,      // its square
  poisson,            // outputs - targets log(outputs)
  kl_divergence,      // outputs and targets: probabilities; sum of targets log(targets / outputs)
  categorical_hinge,  // targets: [n,c], one of each row 1, others 0; max(1 + greatest wrong output - right output, 0)
  cosine_distance,    // 1 - cosine of the angle between outputs and targets
  binary_focal,       // outputs: logits [n,...]; targets 0 and 1 (Lin et al. 2017)
  focal,              // outputs: logits [n,c]; targets: classes [n], i32 or i64
};

struct LossOptions {
  double label_smoothing = 0;  // of softmax cross entropies
  double delta = 1;            // of huber
  double gamma = 2;            // of focal losses: (1 - p)^gamma with the probability p of the right answer
  double alpha = 0.25;         // of focal losses: weight of positive labels; negative ones have 1 - alpha
};

namespace losses {

// [n]: the loss of each example, averaged over its elements if it has several. Throws invalid_argument for outputs of
// unknown rank or without dimension n.
Output per_example(Loss loss, Output outputs, Output targets, LossOptions options = {});

// Scalars: the mean of per_example() over the examples.
Output mean(Loss loss, Output outputs, Output targets, LossOptions options = {});
Output sparse_softmax_cross_entropy(Output logits, Output labels);
Output softmax_cross_entropy(Output logits, Output labels);
Output sigmoid_cross_entropy(Output logits, Output labels);
Output mean_squared_error(Output outputs, Output targets);

}  // namespace losses

// Sums over examples, from which means over any number of batches can be computed.
namespace metrics {

// The number of examples whose largest logit (the first of several) is at their label: logits [n,c], labels [n] of an
// integer dtype -> i64 scalar.
Output correct_count(Output logits, Output labels, Name name = {});
// The sum of losses [n]: f32 (f64 for f64) scalar.
Output loss_sum(Output per_example, Name name = {});

}  // namespace metrics
}  // namespace troupe
