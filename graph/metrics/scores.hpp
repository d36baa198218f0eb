// Metrics of decisions by thresholds: an output is a hit where it exceeds a threshold. Counts of hits and misses are
// weighted; scores are made of them, 0 where they would divide by 0.
//
// Outputs are probabilities [n,...], or logits; targets are 0 and 1, of the same shape. One sum per interval between
// thresholds and kind of target is kept, so that 200 thresholds cost hardly more than one. Comparisons are in the
// dtype of the outputs, 16 bits in f32.
#pragma once

#include <vector>

#include <troupe/graph/metrics/metrics.hpp>

namespace troupe::metrics {

struct ThresholdOptions {
  // Ascending, in [0, 1]; with several, the result is a vector. Default: 0.5; with top_k, none.
  std::vector<double> thresholds{};
  bool from_logits = false;
  std::int64_t top_k = 0;                  // only the k greatest outputs of each row can be hits; 0: all
  std::optional<std::int64_t> class_id{};  // only this column counts
  std::string name{};                      // default: that of the function
};
Metric precision(ThresholdOptions options = {});  // true positives / hits
Metric recall(ThresholdOptions options = {});     // true positives / positives
Metric true_positives(ThresholdOptions options = {});
Metric false_positives(ThresholdOptions options = {});
Metric true_negatives(ThresholdOptions options = {});
Metric false_negatives(ThresholdOptions options = {});

// The best of one score among evenly spaced thresholds where another is at least `at`, 0 if it is nowhere.
struct AtOptions {
  double at = 0.5;
  std::int64_t thresholds = 200;  // 1: only 0.5
  bool from_logits = false;
  std::optional<std::int64_t> class_id{};
  std::string name{};
};
Metric precision_at_recall(AtOptions options = {});
Metric recall_at_precision(AtOptions options = {});
Metric sensitivity_at_specificity(
    AtOptions options = {});  // sensitivity: recall of positives; specificity: of negatives
Metric specificity_at_sensitivity(AtOptions options = {});

enum class Curve {
  roc,     // true positive rate over false positive rate
  pr,      // precision over recall
  pr_gain  // precision gain over recall gain (Flach & Kull 2015)
};
// Heights of the area between two thresholds: their mean (of Curve::pr the interpolation of Davis & Goadrich 2006), the
// least, or the greatest.
enum class AreaSum { interpolation, minoring, majoring };
struct AucOptions {
  Curve curve = Curve::roc;
  AreaSum sum = AreaSum::interpolation;
  std::int64_t num_thresholds = 200;  // evenly spaced, at least 2
  std::vector<double> thresholds{};   // instead: ascending, in (0, 1)
  bool from_logits = false;
  // Each column [n,l] has a curve of its own; the result is their mean.
  bool multi_label = false;
  // One per column: with multi_label weights of that mean; else they scale the weights of the column's elements.
  std::vector<double> label_weights{};
  std::string name = "auc";
};
// The area under the curve.
Metric auc(AucOptions options = {});

}  // namespace troupe::metrics
