#include "troupe/graph/builder/softmax.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {
namespace {

// An axis of x in [0, rank). Throws invalid_argument if x's rank is not known.
int known_axis(const char* function, Output x, std::int64_t axis) {
  if (!x.valid()) invalid_argument("{}: x is not a tensor", function);
  if (!x.shape().has_rank()) invalid_argument("{}: the rank of '{}' must be known", function, x.name());
  const int rank = x.shape().rank();
  if (axis < -rank || axis >= rank)
    invalid_argument("{}: axis {} is out of range: there are {} dimensions", function, axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// The size of x along an axis, as an i64 scalar.
Output size_along(Output x, int axis) {
  if (x.shape()[axis] != kUnknown) return constant<std::int64_t>(*x.graph, x.shape()[axis]);
  const Output shape = shape_of(x);
  return gather(shape, constant<std::int64_t>(*x.graph, axis));
}

// bool like x: true where the index along the axis is `index`, which has x's shape without the axis.
Output at_index(Output x, Output index, int axis) {
  const Output size = size_along(x, axis);
  const Output zero = constant<std::int64_t>(*x.graph, 0);
  const Output one = constant<std::int64_t>(*x.graph, 1);
  Output numbers = range(zero, size, one);
  if (const int behind = x.shape().rank() - 1 - axis; behind > 0) {
    Integers dims(static_cast<std::size_t>(behind) + 1, 1);
    dims[0] = -1;
    numbers = reshape(numbers, Shape(dims));
  }
  return equal(numbers, expand_dims(cast(index, DType::i64), axis));
}

}  // namespace

Output softmax(Output x, SoftmaxOptions options) {
  return add_op("Softmax", {std::move(x)}, {{"axis", options.axis}}, std::move(options.name));
}
Output log_softmax(Output x, SoftmaxOptions options) {
  return add_op("LogSoftmax", {std::move(x)}, {{"axis", options.axis}}, std::move(options.name));
}

Output hardmax(Output x, SoftmaxOptions options) {
  const int axis = known_axis("hardmax", x, options.axis);
  const Output index = arg_max(x, axis);
  const Output chosen = at_index(x, index, axis);
  return cast(chosen, x.dtype(), std::move(options.name));
}

bool is_softmax(Output x) { return x.source().op->name == "Softmax"; }

Output sparse_softmax_cross_entropy(Output logits, Output labels, SparseCrossEntropyOptions options) {
  return add_op(
      "SparseSoftmaxCrossEntropy", {logits, labels},
      {{"axis", options.axis}, {"ignore_index", options.ignore_index}, {"label_smoothing", options.label_smoothing}},
      std::move(options.name));
}

Output softmax_cross_entropy(Output logits, Output labels, CrossEntropyOptions options) {
  Output targets = labels;
  if (const double s = options.label_smoothing; s != 0) {
    const Output classes =
        cast(size_along(logits, known_axis("softmax_cross_entropy", logits, options.axis)), logits.dtype());
    const Output share = s / classes;
    targets = labels * (1 - s) + share;
  }
  return add_op("SoftmaxCrossEntropy", {logits, targets}, {{"axis", options.axis}}, std::move(options.name));
}

Output sigmoid_cross_entropy(Output logits, Output labels, Name name) {
  return add_op("SigmoidCrossEntropy", {std::move(logits), std::move(labels)}, {}, std::move(name));
}

Output weighted_sigmoid_cross_entropy(Output logits, Output labels, double positive_weight, Name name) {
  const Output weights = labels * (positive_weight - 1) + 1.0;
  const Output negative = (1.0 - labels) * logits;
  return add(negative, weights * softplus(-logits), std::move(name));
}

Output weighted_sparse_softmax_cross_entropy(Output logits, Output labels, Output weights,
                                             SparseCrossEntropyOptions options) {
  Name name = std::move(options.name);
  options.name.clear();
  const std::int64_t ignored = options.ignore_index;
  const Output losses = sparse_softmax_cross_entropy(logits, labels, std::move(options));
  Output classes = cast(labels, DType::i64);
  if (ignored != SparseCrossEntropyOptions::kNoLabel) {
    const Output zero = constant<std::int64_t>(*labels.graph, 0);
    const Output counts = not_equal(classes, constant<std::int64_t>(*labels.graph, ignored));
    classes = select(counts, classes, zero);
  }
  return mul(losses, gather(weights, classes), std::move(name));
}

Output pick_classes(Output x, Output labels, std::int64_t axis) {
  const int along = known_axis("pick_classes", x, axis);
  const Output chosen = at_index(x, labels, along);
  return sum(select(chosen, x, scalar_like(x, 0)), {along});
}

}  // namespace troupe
