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
};

namespace losses {

// [n]: the loss of each example, averaged over its elements if it has several. Throws invalid_argument for outputs of
// unknown rank or without dimension n.
Output per_example(Loss loss, Output outputs, Output targets);

// Scalars: the mean of per_example() over the examples.
Output mean(Loss loss, Output outputs, Output targets);
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
