#include "troupe/graph/layers/losses.hpp"

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

}  // namespace

namespace losses {

Output per_example(Loss loss, Output outputs, Output targets) {
  require_examples(outputs);
  switch (loss) {
    case Loss::sparse_softmax_cross_entropy:
      return troupe::sparse_softmax_cross_entropy(outputs, targets);
    case Loss::softmax_cross_entropy:
      return troupe::softmax_cross_entropy(outputs, targets);
    case Loss::sigmoid_cross_entropy:
      return mean_per_example(troupe::sigmoid_cross_entropy(outputs, targets));
    case Loss::mean_squared_error:
      return mean_per_example(squared_error(outputs, targets));
  }
  invalid_argument("unknown loss {}", static_cast<int>(loss));
}

Output mean(Loss loss, Output outputs, Output targets) { return troupe::mean(per_example(loss, outputs, targets)); }
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
