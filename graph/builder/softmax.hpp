// Builder API for softmax and the cross entropies. Axes may be negative.
#pragma once

#include <limits>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct SoftmaxOptions {
  std::int64_t axis = -1;
  Name name{};
};
Output softmax(Output x, SoftmaxOptions options = {});      // exp(x) / sum(exp(x)) along the axis
Output log_softmax(Output x, SoftmaxOptions options = {});  // x - log(sum(exp(x))) along the axis
Output hardmax(Output x, SoftmaxOptions options = {});      // 1 at the first maximum along the axis, else 0
bool is_softmax(Output x);                                  // made by softmax(): probabilities, not logits

struct SparseCrossEntropyOptions {
  std::int64_t axis = -1;  // of the classes
  // Labels of this value have loss 0 and gradient 0.
  std::int64_t ignore_index = kNoLabel;
  // s in [0, 1]: the class of the label has probability 1 - s + s / c, every other s / c (Szegedy et al. 2016).
  double label_smoothing = 0;
  Name name{};

  static constexpr std::int64_t kNoLabel = std::numeric_limits<std::int64_t>::min();
};
// logits [n,c], labels [n] (class numbers, i32 or i64) -> loss [n] = -log softmax(logits)[label]; and so for logits of
// any rank, with labels and loss of their shape without the axis of the classes.
Output sparse_softmax_cross_entropy(Output logits, Output labels, SparseCrossEntropyOptions options = {});
struct CrossEntropyOptions {
  std::int64_t axis = -1;      // of the classes
  double label_smoothing = 0;  // s: labels (1 - s) + s / c
  Name name{};
};
// logits [n,c], labels [n,c] (probabilities; rows sum to 1) -> loss [n]; any rank.
Output softmax_cross_entropy(Output logits, Output labels, CrossEntropyOptions options = {});
// Elementwise, for independent classes: max(x,0) - x z + log(1 + exp(-|x|)).
Output sigmoid_cross_entropy(Output logits, Output labels, Name name = {});

// The same, with the losses of positive labels multiplied: (1 - z) x + (1 + (w - 1) z) log(1 + exp(-x)).
Output weighted_sigmoid_cross_entropy(Output logits, Output labels, double positive_weight, Name name = {});
// sparse_softmax_cross_entropy(), each loss multiplied with weights [c] at its label; ignored labels have loss 0.
Output weighted_sparse_softmax_cross_entropy(Output logits, Output labels, Output weights,
                                             SparseCrossEntropyOptions options = {});

// The elements of x [n,c] at classes labels [n] -> [n]; any rank, with the classes along `axis`. A label outside
// [0, c) picks 0.
Output pick_classes(Output x, Output labels, std::int64_t axis = -1);

}  // namespace troupe
