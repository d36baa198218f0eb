// Metrics by class: scores of each class and their averages, confusion matrices, intersection over union. Scores are 0
// where they would divide by 0.
#pragma once

#include <vector>

#include <troupe/graph/metrics/metrics.hpp>

namespace troupe::metrics {

enum class Average {
  micro,     // of all classes' counts added up
  macro,     // the mean of the classes' scores
  weighted,  // their mean, each weighted with the class's number of positives
  none       // a vector: each class
};
struct ClassScoreOptions {
  Average average = Average::macro;
  // Outputs above it are hits; default: the greatest outputs of each row, unless they are 0.
  std::optional<double> threshold{};
  double beta = 1;  // of f_beta: how much more recall counts than precision
  std::string name{};
};
// Outputs [n,c], c known; targets: rows of 0 and 1 [n,c], or classes [n] of an integer dtype.
Metric class_precision(ClassScoreOptions options = {});
Metric class_recall(ClassScoreOptions options = {});
Metric f1(ClassScoreOptions options = {});      // 2 precision recall / (precision + recall)
Metric f_beta(ClassScoreOptions options = {});  // (1 + beta^2) precision recall / (beta^2 precision + recall)

struct ConfusionOptions {
  std::int64_t classes = 2;
  std::optional<double> threshold{};           // floating outputs are class 1 above it, else 0
  std::optional<std::int64_t> ignore_class{};  // targets that do not count
  std::vector<std::int64_t> of_classes{};      // of mean_iou: only these; default: all
  std::string name{};
};
// [classes,classes]: weights by class of the target (row) and of the output (column). Outputs and targets of integers
// are classes [n,...]; floating ones are rows [n,...,c] whose greatest element is at the class. Elements of other
// classes count nowhere.
Metric confusion_matrix(ConfusionOptions options = {});
// The mean over classes that occur of intersection / union = true positives / (positives + hits - true positives).
Metric mean_iou(ConfusionOptions options = {});

}  // namespace troupe::metrics
