#include "troupe/graph/metrics/metrics.hpp"

#include <cmath>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/metrics/sums.hpp>

namespace troupe::metrics {
namespace {

// Targets are classes [n,...] or rows [n,...,c] for outputs [n,...,c].
Output target_classes(std::string_view metric, const MetricInputs& in) {
  check_inputs(metric, in);
  const Shape &rows = in.outputs.shape(), &targets = in.targets.shape();
  if (rows.rank() < 2 || rows.dim(-1) == 1)
    invalid_argument("metric '{}': the outputs '{}' are {}, but need a last dimension of at least two classes", metric,
                     in.outputs.name(), rows.to_string());
  if (!targets.compatible_with(rows) && !targets.compatible_with(rows.sub(0, rows.rank() - 1)))
    invalid_argument("metric '{}': the targets '{}' are {}, but must be classes or rows of the outputs' {}", metric,
                     in.targets.name(), targets.to_string(), rows.to_string());
  return class_numbers(in.targets, rows.rank() - 1);
}

// Of each token [n,...].
Output token_entropy(const MetricInputs& in, Output classes, const PerplexityOptions& options) {
  const Output x = as_wide(in.outputs);
  const Shape rows{kUnknown, known_columns(options.name, in)};
  const Output logits = reshape(x, rows);
  const Output flat = reshape(classes, Shape{kUnknown});
  const Output each = losses::per_example(Loss::sparse_softmax_cross_entropy, logits, flat,
                                          {.from_logits = options.from_logits, .ignore_class = options.ignore_class});
  return reshape_like(each, classes);
}

Output perplexity_sums(const MetricInputs& in, const PerplexityOptions& options) {
  const Output classes = target_classes(options.name, in);
  const Output each = as_f64(token_entropy(in, classes, options));
  Output weights = weights_like(options.name, in, classes);
  if (options.ignore_class) {
    const Output counts = not_equal(classes, scalar_like(classes, static_cast<double>(*options.ignore_class)));
    weights = weights * as_f64(counts);
  }
  const Output total = troupe::sum(weights * each);
  const Output count = troupe::sum(weights);
  return stack({total, count}, 0);
}

// Of rows: means, deviations from them, and the means of the squares of these.
struct RowMoments {
  Output mean{}, deviation{}, variance{};
};
RowMoments row_moments(Output x) {
  RowMoments out;
  out.mean = troupe::mean(x, {-1}, {.keep_dims = true});
  out.deviation = x - out.mean;
  out.variance = troupe::mean(square(out.deviation), {-1});
  return out;
}

// Mean products of the deviations of rows, over `scale` of the moments of both.
Metric row_correlation(std::string name, Output (*scale)(const RowMoments&, const RowMoments&)) {
  return mean_of(name, [name, scale](const MetricInputs& in) {
    check_alike(name, in);
    if (in.outputs.shape().rank() < 2)
      invalid_argument("metric '{}': the outputs '{}' are {}, but must be rows [n,...,d]", name, in.outputs.name(),
                       in.outputs.shape().to_string());
    const RowMoments x = row_moments(as_f64(in.outputs));
    const RowMoments y = row_moments(as_f64(in.targets));
    const Output covariance = troupe::mean(x.deviation * y.deviation, {-1});
    return covariance / scale(x, y);
  });
}

// [5,d]: for each column the weighted sums of targets^2, targets, errors^2 and 1, and the number of examples.
Output r2_sums(const MetricInputs& in, const std::string& metric) {
  check_alike(metric, in);
  known_columns(metric, in);
  if (in.outputs.shape().rank() != 2)
    invalid_argument("metric '{}': the outputs '{}' are {}, but must be [n,d]", metric, in.outputs.name(),
                     in.outputs.shape().to_string());
  const Output y = as_f64(in.targets);
  const Output weights = weights_like(metric, in, in.outputs);
  const Output error = as_f64(in.outputs) - y;
  const Output weighted = y * weights;
  const Output squares = troupe::sum(weighted * y, {0});
  const Output sums = troupe::sum(weighted, {0});
  const Output errors = troupe::sum(square(error) * weights, {0});
  const Output counts = troupe::sum(weights, {0});
  const Output examples = troupe::sum(ones_like(y), {0});
  return stack({squares, sums, errors, counts, examples}, 0);
}

Tensor r2_result(const Tensor& sums, const R2Options& options) {
  const auto d = static_cast<std::size_t>(sums.shape().dim(1));
  const double* s = sums.data<double>();
  std::vector<double> scores(d);
  double mean = 0, weighted = 0, weight = 0;
  for (std::size_t i = 0; i < d; ++i) {
    const double total = s[i] - s[d + i] * (s[d + i] / s[3 * d + i]);
    scores[i] = 1 - s[2 * d + i] / total;
    if (std::isinf(scores[i])) scores[i] = 0;
    mean += scores[i] / static_cast<double>(d);
    weighted += total * scores[i];
    weight += total;
  }
  if (options.average == R2Average::uniform) scores = {mean};
  if (options.average == R2Average::variance_weighted) scores = {weighted / weight};
  const double n = s[4 * d], p = static_cast<double>(options.regressors);
  if (p > 0 && n > p + 1)
    for (double& score : scores) score = 1 - (1 - score) * (n - 1) / (n - p - 1);
  return options.average == R2Average::none ? vector_result(scores) : scalar_result(scores[0]);
}

}  // namespace

Metric mean_of(std::string name, std::function<Output(const MetricInputs&)> values,
               std::function<double(double)> of_mean) {
  return {.name = name,
          .sums =
              [name, values = std::move(values)](const MetricInputs& in) {
                check_inputs(name, in, in.targets.valid());
                return weighted_sums(name, in, values(in));
              },
          .result =
              [of_mean = std::move(of_mean)](const Tensor& sums) {
                const double mean = ratio(sums.data<double>()[0], sums.data<double>()[1]);
                return scalar_result(of_mean ? of_mean(mean) : mean);
              }};
}

Metric mean_of_outputs(std::string name) {
  return mean_of(std::move(name), [](const MetricInputs& in) { return in.outputs; });
}

Metric sum_of_outputs(std::string name) {
  return {.name = name,
          .sums =
              [name](const MetricInputs& in) {
                check_inputs(name, in, false);
                const Output weights = weights_like(name, in, in.outputs);
                return troupe::sum(as_f64(in.outputs) * weights);
              },
          .result = [](const Tensor& sums) { return sums; }};
}

Metric loss(Loss loss, LossOptions options, std::string name) {
  if (name.empty()) name = troupe::name(loss);
  return mean_of(std::move(name), [=](const MetricInputs& in) {
    return losses::per_example(loss, as_wide(in.outputs), in.targets, options);
  });
}

Metric accuracy(std::string name) {
  Metric out = mean_of(name, [name](const MetricInputs& in) {
    const Output classes = target_classes(name, in);
    return equal(arg_max(in.outputs, -1), classes);
  });
  // One class of each example: two counts, which take no memory in steps.
  out.sums = [general = out.sums](const MetricInputs& in) {
    const bool plain = !in.weights.valid() && in.outputs.valid() && in.targets.valid() &&
                       in.outputs.shape().rank() == 2 && in.outputs.shape().dim(1) != 1 &&
                       in.targets.shape().rank() == 1 && !is_floating(in.targets.dtype());
    if (!plain) return general(in);
    const Output right = reshape(correct_count(in.outputs, in.targets, "correct"), Shape{1});
    const Output all = reshape(element_count(in.targets, "examples"), Shape{1});
    return cast(concat({right, all}, 0), DType::f64);
  };
  return out;
}

Metric top_k_accuracy(TopKAccuracyOptions options) {
  if (options.k < 1) invalid_argument("metric '{}': k is {}, but must be at least 1", options.name, options.k);
  return mean_of(options.name, [options](const MetricInputs& in) {
    const Output classes = target_classes(options.name, in);
    const Output scores = as_wide(in.outputs);
    const Output k = constant<std::int64_t>(*scores.graph, options.k);
    if (scores.shape().rank() == 2) return in_top_k(scores, classes, k);
    const Output rows = reshape(scores, Shape{kUnknown, known_columns(options.name, in)});
    const Output flat = reshape(classes, Shape{kUnknown});
    return reshape_like(in_top_k(rows, flat, k), classes);
  });
}

Metric binary_accuracy(BinaryAccuracyOptions options) {
  const double t = options.threshold;
  if (!(t > 0 && t < 1)) invalid_argument("metric '{}': the threshold {} is not in (0, 1)", options.name, t);
  return mean_of(options.name, [options, t](const MetricInputs& in) {
    check_alike(options.name, in);
    const Output x = as_wide(in.outputs);
    const Output on = greater(x, scalar_like(x, options.from_logits ? std::log(t / (1 - t)) : t));
    const Output targets = cast(in.targets, DType::f32);
    return equal(cast(on, DType::f32), targets);
  });
}

Metric equality(std::string name) {
  return mean_of(name, [name](const MetricInputs& in) {
    check_alike(name, in);
    return equal(in.outputs, cast(in.targets, in.outputs.dtype()));
  });
}

Metric root_mean_squared_error(std::string name) {
  return mean_of(
      std::move(name),
      [](const MetricInputs& in) {
        return losses::per_example(Loss::mean_squared_error, as_wide(in.outputs), in.targets);
      },
      [](double mean) { return std::sqrt(mean); });
}

Metric cosine_similarity(std::string name) {
  return mean_of(std::move(name), [](const MetricInputs& in) {
    return 1.0 - losses::per_example(Loss::cosine_distance, as_wide(in.outputs), in.targets);
  });
}

Metric pearson_correlation(std::string name) {
  return row_correlation(std::move(name), [](const RowMoments& x, const RowMoments& y) {
    const Output a = sqrt(x.variance);
    const Output b = sqrt(y.variance);
    return a * b;
  });
}

Metric concordance_correlation(std::string name) {
  return row_correlation(std::move(name), [](const RowMoments& x, const RowMoments& y) {
    const Output apart = square(x.mean - y.mean);
    const Output spread = x.variance + y.variance;
    return (spread + squeeze(apart, {-1})) * 0.5;
  });
}

Metric perplexity(PerplexityOptions options) {
  return {.name = options.name,
          .sums = [options](const MetricInputs& in) { return perplexity_sums(in, options); },
          .result =
              [](const Tensor& sums) {
                return scalar_result(std::exp(ratio(sums.data<double>()[0], sums.data<double>()[1])));
              }};
}

Metric r2_score(R2Options options) {
  if (options.regressors < 0)
    invalid_argument("metric '{}': {} regressors: pass 0 or more", options.name, options.regressors);
  return {.name = options.name,
          .sums = [metric = options.name](const MetricInputs& in) { return r2_sums(in, metric); },
          .result = [options](const Tensor& sums) { return r2_result(sums, options); }};
}

}  // namespace troupe::metrics
