// Building blocks of the sums of metrics, for metrics of one's own.
#pragma once

#include <initializer_list>
#include <span>

#include <troupe/graph/metrics/metrics.hpp>

namespace troupe::metrics {

// Throws invalid_argument, naming the metric, unless outputs (and targets, if `needs_targets`) are tensors of known
// rank, at least 1, and weights, if any, are floating.
void check_inputs(std::string_view metric, const MetricInputs& in, bool needs_targets = true);
// The same, and of one shape, as far as it is known.
void check_alike(std::string_view metric, const MetricInputs& in);
// The known number of columns along the last dimension of the outputs.
std::int64_t known_columns(std::string_view metric, const MetricInputs& in);

// x as f64, and as f32 unless it is f64 (thresholds are compared in the precision of the model).
Output as_f64(Output x);
Output as_wide(Output x);

// f64 weights of the shape of `like` [n,...]: ones without weights; weights of leading dimensions are repeated.
Output weights_like(std::string_view metric, const MetricInputs& in, Output like);
// [2]: the sum of weight times value, and the sum of weights. Values and weights are reduced to the weights' rank by
// means, then to one number per example.
Output weighted_sums(std::string_view metric, const MetricInputs& in, Output values);

// Along the last dimension: classes as they are, i64; else the place of the greatest of [...,c].
Output class_numbers(Output classes_or_rows, int rank);

// a / b, 0 where b is 0.
double ratio(double a, double b);

Tensor scalar_result(double value);
Tensor vector_result(std::span<const double> values);

}  // namespace troupe::metrics
