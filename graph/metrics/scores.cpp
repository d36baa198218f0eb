#include "troupe/graph/metrics/scores.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/graph/metrics/sums.hpp>
#include <troupe/graph/metrics/threshold_counts.hpp>

namespace troupe::metrics {
namespace {

using Counts = ThresholdCounts;
using Scores = std::vector<double>;

void check_thresholds(const std::string& metric, const std::vector<double>& thresholds) {
  for (const double t : thresholds)
    if (!(t >= 0 && t <= 1)) invalid_argument("metric '{}': the threshold {} is not in [0, 1]", metric, t);
  if (!std::ranges::is_sorted(thresholds)) invalid_argument("metric '{}': thresholds must ascend", metric);
}

// ratio() of each a and a + b.
Scores parts(const Scores& a, const Scores& b) {
  Scores out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = ratio(a[i], a[i] + b[i]);
  return out;
}
Scores precisions(const Counts& c) { return parts(c.true_positives, c.false_positives); }
Scores recalls(const Counts& c) { return parts(c.true_positives, c.false_negatives); }
Scores specificities(const Counts& c) { return parts(c.true_negatives, c.false_positives); }
Scores hits(const Counts& c) { return c.true_positives; }
Scores wrong_hits(const Counts& c) { return c.false_positives; }
Scores rejections(const Counts& c) { return c.true_negatives; }
Scores misses(const Counts& c) { return c.false_negatives; }

Metric score(std::string name, ThresholdOptions options, Scores (*scores)(const Counts&)) {
  if (options.name.empty()) options.name = std::move(name);
  check_thresholds(options.name, options.thresholds);
  if (options.top_k < 0) invalid_argument("metric '{}': top_k is {}: pass 0 or more", options.name, options.top_k);
  if (options.thresholds.empty()) options.thresholds = {options.top_k > 0 ? -1e9 : 0.5};
  const ThresholdPlan plan{.metric = options.name,
                           .thresholds = std::move(options.thresholds),
                           .from_logits = options.from_logits,
                           .top_k = options.top_k,
                           .class_id = options.class_id};
  return {.name = plan.metric,
          .sums = [plan](const MetricInputs& in) { return threshold_sums(plan, in); },
          .result =
              [t = plan.thresholds.size(), scores](const Tensor& sums) {
                const Scores found = scores(threshold_counts(sums, t)[0]);
                return found.size() == 1 ? scalar_result(found[0]) : vector_result(found);
              }};
}

Metric best_at(std::string name, AtOptions options, Scores (*wanted)(const Counts&),
               Scores (*constrained)(const Counts&)) {
  if (options.name.empty()) options.name = std::move(name);
  if (!(options.at >= 0 && options.at <= 1))
    invalid_argument("metric '{}': {} is not in [0, 1]", options.name, options.at);
  if (options.thresholds < 1)
    invalid_argument("metric '{}': {} thresholds: pass 1 or more", options.name, options.thresholds);
  const ThresholdPlan plan{
      .metric = options.name,
      .thresholds = options.thresholds == 1 ? std::vector<double>{0.5} : even_thresholds(options.thresholds),
      .from_logits = options.from_logits,
      .class_id = options.class_id};
  return {.name = plan.metric,
          .sums = [plan](const MetricInputs& in) { return threshold_sums(plan, in); },
          .result =
              [t = plan.thresholds.size(), at = options.at, wanted, constrained](const Tensor& sums) {
                const Counts counts = std::move(threshold_counts(sums, t)[0]);
                const Scores values = wanted(counts), allowed = constrained(counts);
                double best = 0;
                for (std::size_t i = 0; i < t; ++i)
                  if (allowed[i] >= at) best = std::max(best, values[i]);
                return scalar_result(best);
              }};
}

// Between two thresholds the true positives are a line over the hits: Davis & Goadrich 2006, integrated.
double interpolated_pr_area(const Counts& c) {
  double area = 0;
  for (std::size_t i = 0; i + 1 < c.true_positives.size(); ++i) {
    const double here = c.true_positives[i] + c.false_positives[i];
    const double next = c.true_positives[i + 1] + c.false_positives[i + 1];
    const double gained = c.true_positives[i] - c.true_positives[i + 1];
    const double slope = ratio(gained, std::max(here - next, 0.0));
    const double intercept = c.true_positives[i + 1] - slope * next;
    const double growth = here > 0 && next > 0 ? here / next : 1;
    area += ratio(slope * (gained + intercept * std::log(growth)), c.true_positives[i + 1] + c.false_negatives[i + 1]);
  }
  return area;
}

struct CurvePoints {
  Scores x{}, y{};
};

CurvePoints pr_gain_points(const Counts& c) {
  CurvePoints out;
  for (std::size_t i = 0; i < c.true_positives.size(); ++i) {
    const double tp = c.true_positives[i], fp = c.false_positives[i], fn = c.false_negatives[i];
    const double odds = ratio(tp + fn, c.true_negatives[i] + fp);
    out.x.push_back(tp == 0 ? 0 : std::max(1 - odds * (fn / tp), 0.0));
    out.y.push_back(tp == 0 ? 1 : 1 - odds * (fp / tp));
  }
  return out;
}

double area_of(const Counts& c, Curve curve, AreaSum sum) {
  if (curve == Curve::pr && sum == AreaSum::interpolation) return interpolated_pr_area(c);
  const CurvePoints points = curve == Curve::roc  ? CurvePoints{parts(c.false_positives, c.true_negatives), recalls(c)}
                             : curve == Curve::pr ? CurvePoints{recalls(c), precisions(c)}
                                                  : pr_gain_points(c);
  double area = 0;
  for (std::size_t i = 0; i + 1 < points.x.size(); ++i) {
    const double a = points.y[i], b = points.y[i + 1];
    const double height = sum == AreaSum::interpolation ? (a + b) / 2
                          : sum == AreaSum::minoring    ? std::min(a, b)
                                                        : std::max(a, b);
    area += (points.x[i] - points.x[i + 1]) * height;
  }
  return area;
}

std::vector<double> auc_thresholds(const AucOptions& options) {
  if (options.thresholds.empty()) {
    if (options.num_thresholds < 2)
      invalid_argument("metric '{}': {} thresholds: pass 2 or more", options.name, options.num_thresholds);
    return even_thresholds(options.num_thresholds);
  }
  check_thresholds(options.name, options.thresholds);
  std::vector<double> all = even_thresholds(2);
  all.insert(all.begin() + 1, options.thresholds.begin(), options.thresholds.end());
  return all;
}

}  // namespace

Metric precision(ThresholdOptions o) { return score("precision", std::move(o), precisions); }
Metric recall(ThresholdOptions o) { return score("recall", std::move(o), recalls); }
Metric true_positives(ThresholdOptions o) { return score("true_positives", std::move(o), hits); }
Metric false_positives(ThresholdOptions o) { return score("false_positives", std::move(o), wrong_hits); }
Metric true_negatives(ThresholdOptions o) { return score("true_negatives", std::move(o), rejections); }
Metric false_negatives(ThresholdOptions o) { return score("false_negatives", std::move(o), misses); }

Metric precision_at_recall(AtOptions o) { return best_at("precision_at_recall", std::move(o), precisions, recalls); }
Metric recall_at_precision(AtOptions o) { return best_at("recall_at_precision", std::move(o), recalls, precisions); }
Metric sensitivity_at_specificity(AtOptions o) {
  return best_at("sensitivity_at_specificity", std::move(o), recalls, specificities);
}
Metric specificity_at_sensitivity(AtOptions o) {
  return best_at("specificity_at_sensitivity", std::move(o), specificities, recalls);
}

Metric auc(AucOptions options) {
  const ThresholdPlan plan{.metric = options.name,
                           .thresholds = auc_thresholds(options),
                           .from_logits = options.from_logits,
                           .by_column = options.multi_label,
                           .column_weights = options.label_weights};
  return {.name = plan.metric,
          .sums = [plan](const MetricInputs& in) { return threshold_sums(plan, in); },
          .result =
              [plan, options](const Tensor& sums) {
                const auto columns = threshold_counts(sums, plan.thresholds.size());
                const bool weighted = options.multi_label && !options.label_weights.empty();
                if (weighted && options.label_weights.size() != columns.size())
                  invalid_argument("metric '{}': {} label weights for {} columns", options.name,
                                   options.label_weights.size(), columns.size());
                double area = 0, weight = 0;
                for (std::size_t i = 0; i < columns.size(); ++i) {
                  const double of_column = weighted ? options.label_weights[i] : 1;
                  area += of_column * area_of(columns[i], options.curve, options.sum);
                  weight += of_column;
                }
                return scalar_result(ratio(area, weight));
              }};
}

}  // namespace troupe::metrics
