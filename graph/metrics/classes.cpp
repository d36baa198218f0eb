#include "troupe/graph/metrics/classes.hpp"

#include <algorithm>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/metrics/sums.hpp>

namespace troupe::metrics {
namespace {

Output hits_of_rows(Output x, const std::optional<double>& threshold) {
  if (threshold) return greater(x, scalar_like(x, *threshold));
  const Output greatest = troupe::max(x, {-1}, {.keep_dims = true});
  const Output is_greatest = equal(x, greatest);
  const Output size = abs(x);
  const Output is_set = greater(size, scalar_like(size, 1e-9));  // a row of zeros has no hits, as in Keras
  return logical_and(is_greatest, is_set);
}

Output rows_of_targets(const MetricInputs& in, std::int64_t classes) {
  const bool sparse = in.targets.shape().rank() == 1;
  return sparse ? one_hot(in.targets, classes, {.dtype = DType::f64}) : as_f64(in.targets);
}

// [3,c]: true positives, hits, positives of each class.
Output class_sums(const MetricInputs& in, const ClassScoreOptions& options) {
  check_inputs(options.name, in);
  const std::int64_t classes = known_columns(options.name, in);
  const Shape &outputs = in.outputs.shape(), &targets = in.targets.shape();
  const bool fits = targets.rank() == 1 ? is_integer(in.targets.dtype()) && targets.compatible_with(outputs.sub(0, 1))
                                        : targets.compatible_with(outputs);
  if (outputs.rank() != 2 || !fits)
    invalid_argument("metric '{}': outputs '{}' {} and targets '{}' {} {} must be [n,c] and [n,c], or classes [n]",
                     options.name, in.outputs.name(), outputs.to_string(), in.targets.name(), name(in.targets.dtype()),
                     targets.to_string());
  const Output hits = as_f64(hits_of_rows(as_wide(in.outputs), options.threshold));
  const Output positives = rows_of_targets(in, classes);
  const Output weights = weights_like(options.name, in, in.outputs);
  const Output weighted = weights * positives;
  const Output right = troupe::sum(weighted * hits, {0});
  const Output hit = troupe::sum(weights * hits, {0});
  const Output positive = troupe::sum(weighted, {0});
  return stack({right, hit, positive}, 0);
}

using ClassScore = std::function<double(double right, double hits, double positives)>;

Tensor averaged(const Tensor& sums, Average average, const ClassScore& score) {
  const auto classes = static_cast<std::size_t>(sums.shape().dim(1));
  const double *right = sums.data<double>(), *hits = right + classes, *positives = hits + classes;
  std::vector<double> scores(classes);
  double all_right = 0, all_hits = 0, all_positives = 0, total = 0, weighted = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    scores[i] = score(right[i], hits[i], positives[i]);
    total += scores[i];
    weighted += scores[i] * positives[i];
    all_right += right[i];
    all_hits += hits[i];
    all_positives += positives[i];
  }
  switch (average) {
    case Average::micro:
      return scalar_result(score(all_right, all_hits, all_positives));
    case Average::macro:
      return scalar_result(ratio(total, static_cast<double>(classes)));
    case Average::weighted:
      return scalar_result(ratio(weighted, all_positives));
    case Average::none:
      break;
  }
  return vector_result(scores);
}

Metric class_score(std::string name, ClassScoreOptions options, ClassScore score) {
  if (options.name.empty()) options.name = std::move(name);
  if (!(options.beta > 0))
    invalid_argument("metric '{}': beta is {}, but must be positive", options.name, options.beta);
  return {.name = options.name,
          .sums = [options](const MetricInputs& in) { return class_sums(in, options); },
          .result = [average = options.average,
                     score = std::move(score)](const Tensor& sums) { return averaged(sums, average, score); }};
}

// Classes of floating rows are where they are greatest.
Output confusion_classes(Output x, const std::string& metric) {
  if (!is_floating(x.dtype())) return cast(x, DType::i64);
  if (x.shape().rank() < 2)
    invalid_argument("metric '{}': '{}' is {} {}: classes must be integers, or rows with a score for each", metric,
                     x.name(), name(x.dtype()), x.shape().to_string());
  return arg_max(x, -1);
}

// Whether classes are in [0, count).
Output in_range(Output classes, std::int64_t count) {
  const Output from_0 = greater_equal(classes, scalar_like(classes, 0));
  const Output below = less(classes, scalar_like(classes, static_cast<double>(count)));
  return logical_and(from_0, below);
}

Output confusion_sums(const MetricInputs& in, const ConfusionOptions& options) {
  check_inputs(options.name, in);
  Output found{};
  if (options.threshold) {
    const Output x = as_wide(in.outputs);
    found = cast(greater(x, scalar_like(x, *options.threshold)), DType::i64);
  } else {
    found = confusion_classes(in.outputs, options.name);
  }
  // Targets of a threshold are 0 and 1, whatever their dtype.
  const Output wanted = options.threshold ? cast(in.targets, DType::i64) : confusion_classes(in.targets, options.name);
  if (!found.shape().compatible_with(wanted.shape()))
    invalid_argument("metric '{}': classes {} of the outputs '{}' and {} of the targets '{}' differ in shape",
                     options.name, found.shape().to_string(), in.outputs.name(), wanted.shape().to_string(),
                     in.targets.name());
  const Output found_counts = in_range(found, options.classes);
  const Output wanted_counts = in_range(wanted, options.classes);
  Output counts = logical_and(found_counts, wanted_counts);
  if (options.ignore_class) {
    const Output kept = not_equal(wanted, scalar_like(wanted, static_cast<double>(*options.ignore_class)));
    counts = logical_and(counts, kept);
  }
  const Output cell = wanted * static_cast<double>(options.classes) + found;
  const Output id = select(counts, cell, scalar_like(cell, -1));  // negative ids are dropped
  const Output weights = weights_like(options.name, in, wanted);
  const Shape flat{kUnknown};
  const Output ids = reshape(id, flat);
  const Output values = reshape(weights, flat);
  const Output cells = constant<std::int64_t>(*ids.graph, options.classes * options.classes);
  return reshape(unsorted_segment_sum(values, ids, cells), Shape{options.classes, options.classes});
}

Tensor iou_result(const Tensor& sums, const std::vector<std::int64_t>& of_classes) {
  const auto n = static_cast<std::size_t>(sums.shape().dim(0));
  const double* cells = sums.data<double>();
  double total = 0, count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!of_classes.empty() && std::ranges::find(of_classes, static_cast<std::int64_t>(i)) == of_classes.end())
      continue;
    double row = 0, column = 0;
    for (std::size_t j = 0; j < n; ++j) {
      row += cells[i * n + j];
      column += cells[j * n + i];
    }
    const double right = cells[i * n + i], all = row + column - right;
    if (all <= 1e-9) continue;
    total += right / all;
    count += 1;
  }
  return scalar_result(ratio(total, count));
}

ConfusionOptions checked(ConfusionOptions options, std::string name) {
  if (options.name.empty()) options.name = std::move(name);
  if (options.classes < 1 || options.classes > 1 << 15)
    invalid_argument("metric '{}': {} classes: pass 1 to {}", options.name, options.classes, 1 << 15);
  if (options.threshold && options.classes != 2)
    invalid_argument("metric '{}': a threshold makes two classes, not {}", options.name, options.classes);
  for (const std::int64_t c : options.of_classes)
    if (c < 0 || c >= options.classes)
      invalid_argument("metric '{}': class {} is not in [0, {})", options.name, c, options.classes);
  return options;
}

}  // namespace

Metric class_precision(ClassScoreOptions options) {
  return class_score("class_precision", std::move(options),
                     [](double right, double hits, double) { return ratio(right, hits); });
}

Metric class_recall(ClassScoreOptions options) {
  return class_score("class_recall", std::move(options),
                     [](double right, double, double positives) { return ratio(right, positives); });
}

Metric f_beta(ClassScoreOptions options) {
  // Precision and recall inserted: (1 + b^2) right / (b^2 positives + hits).
  const double b2 = options.beta * options.beta;
  return class_score("f_beta", std::move(options), [b2](double right, double hits, double positives) {
    return ratio((1 + b2) * right, b2 * positives + hits);
  });
}

Metric f1(ClassScoreOptions options) {
  if (options.name.empty()) options.name = "f1";
  if (options.beta != 1) invalid_argument("metric '{}': beta is {}: use f_beta()", options.name, options.beta);
  return f_beta(std::move(options));
}

Metric confusion_matrix(ConfusionOptions options) {
  options = checked(std::move(options), "confusion_matrix");
  return {.name = options.name,
          .sums = [options](const MetricInputs& in) { return confusion_sums(in, options); },
          .result = [](const Tensor& sums) { return sums; }};
}

Metric mean_iou(ConfusionOptions options) {
  options = checked(std::move(options), "mean_iou");
  return {.name = options.name,
          .sums = [options](const MetricInputs& in) { return confusion_sums(in, options); },
          .result = [of = options.of_classes](const Tensor& sums) { return iou_result(sums, of); }};
}

}  // namespace troupe::metrics
