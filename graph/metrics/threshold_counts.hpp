// Counts of hits and misses at ascending thresholds, for metrics/scores.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/metrics/metrics.hpp>

namespace troupe::metrics {

struct ThresholdPlan {
  std::string metric{};
  std::vector<double> thresholds{};  // ascending
  bool from_logits = false;
  std::int64_t top_k = 0;
  std::optional<std::int64_t> class_id{};
  bool by_column = false;  // counts of each column of outputs [n,l]
  std::vector<double> column_weights{};
};

// `count` evenly spaced thresholds over [0, 1]. The first is a little below 0 and the last a little above 1, as in
// Keras: all probabilities exceed the first, none the last.
std::vector<double> even_thresholds(std::int64_t count);

// f64 [columns (t + 1), 2] for t thresholds: for the outputs that exceed exactly i thresholds, the weights of those
// whose target is 0 and 1; a target between counts in parts.
Output threshold_sums(const ThresholdPlan& plan, const MetricInputs& in);

// At each threshold.
struct ThresholdCounts {
  std::vector<double> true_positives{}, false_positives{}, true_negatives{}, false_negatives{};
};
// Of each column; the number of thresholds is t.
std::vector<ThresholdCounts> threshold_counts(const Tensor& sums, std::size_t t);

}  // namespace troupe::metrics
