// Metrics: what is reported of a model beside its loss, over any number of batches, slots and workers.
//
// A metric makes f64 sums over the examples of a batch, in the graph; sums of several batches are added, and a plain
// function turns the total into the result. So a result does not depend on how examples were cut into batches, and
// counts are exact up to 2^53. Sums are of fixed order: the same bits for any number of threads.
//
// One's own, where a mean of values per example is enough:
//
//   Metric within(double tolerance) {
//     return metrics::mean_of("within", [=](const MetricInputs& in) {
//       const Output error = abs(in.outputs - in.targets);
//       return less(error, scalar_like(error, tolerance));
//     });
//   }
//
// Results are those of Keras 3 for the same options, except where a comment says otherwise. Functions of this room
// throw invalid_argument for options, shapes and dtypes that do not fit, when the metric or its sums are made.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/layers/losses.hpp>

namespace troupe {

struct MetricInputs {
  Output outputs{};  // of the model: [n,...]
  Output targets{};  // as the metric takes them; mean_of_outputs() needs none
  // [n], or [n,...] with a part of the dimensions of the values, floating: how much an example, or an element of one,
  // counts. Invalid: each counts 1.
  Output weights{};
};

struct Metric {
  std::string name{};
  // f64 of known shape, sums over the examples: merged by addition.
  std::function<Output(const MetricInputs&)> sums{};
  // Of all sums added up: f64, a scalar, or a vector or matrix where the metric says so.
  std::function<Tensor(const Tensor& sums)> result{};
};

namespace metrics {

// The weighted mean of values, floating or bool [n,...]: each example counts by the mean of its values. 0 without
// weight. `of_mean`, if any, makes the result of the mean.
Metric mean_of(std::string name, std::function<Output(const MetricInputs&)> values,
               std::function<double(double)> of_mean = {});
Metric mean_of_outputs(std::string name = "mean");
// The weighted sum of all elements of the outputs.
Metric sum_of_outputs(std::string name = "sum");

// The mean of losses::per_example(), under the loss' name; computed in the dtype of the outputs, 16 bits in f32.
Metric loss(Loss loss, LossOptions options = {}, std::string name = {});

// The part of examples whose greatest output (the first of several) is at their class. Outputs [n,...,c]; targets
// classes [n,...] of an integer dtype, or rows [n,...,c] whose greatest element is at the class.
Metric accuracy(std::string name = "accuracy");
struct TopKAccuracyOptions {
  std::int64_t k = 5;
  std::string name = "top_k_accuracy";
};
// The part of examples with fewer than k outputs greater than that of their class; targets as of accuracy().
Metric top_k_accuracy(TopKAccuracyOptions options = {});
struct BinaryAccuracyOptions {
  double threshold = 0.5;    // of a probability, in (0, 1)
  bool from_logits = false;  // outputs are logits; else probabilities
  std::string name = "binary_accuracy";
};
// The part of outputs [n,...] that are on the same side of the threshold as their targets, 0 or 1.
Metric binary_accuracy(BinaryAccuracyOptions options = {});
// The part of outputs that equal their targets: classes, or other numbers.
Metric equality(std::string name = "equality");

Metric root_mean_squared_error(std::string name = "root_mean_squared_error");
// The mean cosine of the angle between vectors along the last dimension; 0 for a vector of zeros.
Metric cosine_similarity(std::string name = "cosine_similarity");

// Means over rows along the last dimension of Pearson's correlation of outputs and targets, and of Lin's (1989), which
// falls with a difference in mean or scale too. NaN for rows of equal numbers (Lin's: only where both are equal).
Metric pearson_correlation(std::string name = "pearson_correlation");
Metric concordance_correlation(std::string name = "concordance_correlation");

struct PerplexityOptions {
  bool from_logits = true;
  std::optional<std::int64_t> ignore_class{};  // targets that do not count: padding
  std::string name = "perplexity";
};
// exp of the mean cross entropy of all tokens: outputs [n,...,c], targets classes [n,...]. Weights of examples are
// those of their tokens.
Metric perplexity(PerplexityOptions options = {});

enum class R2Average { uniform, variance_weighted, none };
struct R2Options {
  R2Average average = R2Average::uniform;  // over the columns; none: a vector [d]
  std::int64_t regressors = 0;             // p > 0: adjusted, 1 - (1 - r) (n - 1) / (n - p - 1) where n > p + 1
  std::string name = "r2_score";
};
// The coefficient of determination of outputs and targets [n,d], d known. n counts examples (Keras: elements).
Metric r2_score(R2Options options = {});

}  // namespace metrics
}  // namespace troupe
