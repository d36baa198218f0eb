#include "troupe/graph/builder/losses.hpp"

#include <cmath>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/random.hpp>
#include <troupe/graph/builder/reduce.hpp>
#include <troupe/graph/builder/softmax.hpp>

namespace troupe {
namespace {

// log of the number of times that classes are expected among the samples.
Output log_expected(Output classes, const SampledClasses& samples, DType dtype) {
  const std::int64_t count = samples.classes.shape().rank() == 1 ? samples.classes.shape()[0] : kUnknown;
  if (count == kUnknown) invalid_argument("sampled classes must be a vector of known size");
  const Output k = cast(classes, dtype);
  const double scale = static_cast<double>(count) / std::log(static_cast<double>(samples.range) + 1);
  return log(log1p(reciprocal(k + 1.0)) * scale);
}

struct SampledLogits {
  Output labels{};   // [n,1]
  Output samples{};  // [n,count]
};

SampledLogits sampled_logits(ManyClasses layer, Output inputs, Output labels, const SampledClasses& samples,
                             bool remove_hits) {
  const DType dtype = inputs.dtype();
  const Output of_labels = gather(layer.weights, labels);
  const Output label_products = sum(inputs * of_labels, {-1});
  const Output label_logits = label_products + gather(layer.biases, labels);
  const Output corrected = label_logits - log_expected(labels, samples, dtype);
  const Output of_samples = gather(layer.weights, samples.classes);
  const Output products = matmul(inputs, of_samples, {.transpose_b = true});
  const Output biased = products + gather(layer.biases, samples.classes);
  Output others = biased - log_expected(samples.classes, samples, dtype);
  if (remove_hits) {
    const Output hits = equal(expand_dims(cast(labels, DType::i64), 1), samples.classes);
    others = select(hits, scalar_like(others, -std::numeric_limits<double>::infinity()), others);
  }
  return {expand_dims(corrected, 1), others};
}

}  // namespace

Output ctc_loss(Output logits, Output labels, Output logit_lengths, Output label_lengths, CtcLossOptions options) {
  return add_op("CTCLoss", {std::move(logits), std::move(labels), std::move(logit_lengths), std::move(label_lengths)},
                {{"blank", options.blank}}, std::move(options.name));
}

SampledClasses log_uniform_candidates(Graph& graph, std::int64_t count, std::int64_t range, std::int64_t seed,
                                      Name name) {
  if (count < 1 || range < 1)
    invalid_argument("log_uniform_candidates: {} of {} classes: both must be positive", count, range);
  // The distribution function of k is log(k + 2) / log(range + 1).
  const Output uniform = random_uniform(graph, Shape{count}, 0, 1, {.dtype = DType::f64, .seed = seed});
  const Output value = exp(uniform * std::log(static_cast<double>(range) + 1)) - 1.0;
  const Output classes = cast(floor(value), DType::i64);
  return {minimum(classes, constant<std::int64_t>(graph, range - 1), std::move(name)), range};
}

Output sampled_softmax_loss(ManyClasses layer, Output inputs, Output labels, SampledClasses samples,
                            SampledLossOptions options) {
  const SampledLogits logits = sampled_logits(layer, inputs, labels, samples, options.remove_accidental_hits);
  const Output all = concat({logits.labels, logits.samples}, 1);
  return sparse_softmax_cross_entropy(all, zeros_like(labels), {.name = std::move(options.name)});
}

Output nce_loss(ManyClasses layer, Output inputs, Output labels, SampledClasses samples, SampledLossOptions options) {
  const SampledLogits logits = sampled_logits(layer, inputs, labels, samples, options.remove_accidental_hits);
  // -log(sigmoid(x)) and -log(1 - sigmoid(x)).
  const Output right = softplus(-sum(logits.labels, {1}));
  const Output wrong = softplus(logits.samples);
  return add(right, sum(wrong, {1}), std::move(options.name));
}

}  // namespace troupe
