#include "troupe/graph/metrics/threshold_counts.hpp"

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/metrics/sums.hpp>

namespace troupe::metrics {
namespace {

constexpr double kAround = 1e-7;

// Outputs that are not among the k greatest of their row can exceed no threshold.
Output without_others(Output x, std::int64_t k, const std::string& metric, const MetricInputs& in) {
  const std::int64_t columns = known_columns(metric, in);
  if (k > columns) invalid_argument("metric '{}': top_k is {}, but there are {} classes", metric, k, columns);
  const TopK best = top_k(x, k);
  const Output among = troupe::sum(one_hot(best.indices, columns), {-2});
  const Output is_among = greater(among, scalar_like(among, 0));
  return select(is_among, x, scalar_like(x, -1e10));
}

Output column(Output x, std::int64_t class_id, const std::string& metric, const MetricInputs& in) {
  const std::int64_t columns = known_columns(metric, in);
  if (class_id < 0 || class_id >= columns)
    invalid_argument("metric '{}': class_id {} is not in [0, {})", metric, class_id, columns);
  return gather(x, constant<std::int64_t>(*x.graph, class_id), {.axis = x.shape().rank() - 1});
}

Output scaled_columns(Output weights, const ThresholdPlan& plan, const MetricInputs& in) {
  if (plan.column_weights.empty() || plan.by_column) return weights;
  const auto count = std::ssize(plan.column_weights);
  if (known_columns(plan.metric, in) != count)
    invalid_argument("metric '{}': {} label weights for outputs {}", plan.metric, count,
                     in.outputs.shape().to_string());
  return weights * constant(*weights.graph, Tensor::of<double>(Shape{count}, plan.column_weights));
}

}  // namespace

std::vector<double> even_thresholds(std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    out[static_cast<std::size_t>(i)] = static_cast<double>(i) / static_cast<double>(count - 1);
  out.front() = -kAround;
  out.back() = 1 + kAround;
  return out;
}

Output threshold_sums(const ThresholdPlan& plan, const MetricInputs& in) {
  check_alike(plan.metric, in);
  Output x = as_wide(in.outputs), targets = as_f64(in.targets);
  Output weights = scaled_columns(weights_like(plan.metric, in, in.outputs), plan, in);
  if (plan.from_logits) x = sigmoid(x);
  if (plan.top_k > 0) x = without_others(x, plan.top_k, plan.metric, in);
  if (plan.class_id) {
    x = column(x, *plan.class_id, plan.metric, in);
    targets = column(targets, *plan.class_id, plan.metric, in);
    weights = column(weights, *plan.class_id, plan.metric, in);
  }
  const auto t = std::ssize(plan.thresholds);
  const Output thresholds = constant(*x.graph, Tensor::of<double>(Shape{t}, plan.thresholds));
  Output interval = search_sorted(cast(thresholds, x.dtype()), x);
  std::int64_t intervals = t + 1;
  if (plan.by_column) {
    const std::int64_t columns = known_columns(plan.metric, in);
    const Output places = range(constant<std::int64_t>(*x.graph, columns));
    interval = interval + places * static_cast<double>(intervals);
    intervals *= columns;
  }
  const Output positive = weights * targets;
  const Output negative = weights - positive;
  const Shape flat{kUnknown};
  const Output negatives = reshape(negative, flat);
  const Output positives = reshape(positive, flat);
  const Output both = stack({negatives, positives}, 1);
  const Output ids = reshape(interval, flat);
  return unsorted_segment_sum(both, ids, constant<std::int64_t>(*x.graph, intervals));
}

std::vector<ThresholdCounts> threshold_counts(const Tensor& sums, std::size_t t) {
  const auto values = sums.values<double>();
  std::vector<ThresholdCounts> out(values.size() / (2 * (t + 1)));
  for (std::size_t c = 0; c < out.size(); ++c) {
    const double* of = values.data() + c * 2 * (t + 1);
    ThresholdCounts& counts = out[c];
    for (auto* list :
         {&counts.true_positives, &counts.false_positives, &counts.true_negatives, &counts.false_negatives})
      list->resize(t);
    double negatives = 0, positives = 0;
    for (std::size_t i = 0; i < t; ++i) {  // what exceeds at most i thresholds does not exceed threshold i
      counts.true_negatives[i] = negatives += of[2 * i];
      counts.false_negatives[i] = positives += of[2 * i + 1];
    }
    negatives = positives = 0;
    for (std::size_t i = t; i-- > 0;) {
      counts.false_positives[i] = negatives += of[2 * i + 2];
      counts.true_positives[i] = positives += of[2 * i + 3];
    }
  }
  return out;
}

}  // namespace troupe::metrics
