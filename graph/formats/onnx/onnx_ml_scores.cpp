// Scores, features and classes of ai.onnx.ml.
#include <numbers>

#include "troupe/graph/formats/onnx/onnx_ml.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

constexpr double kAlmostZero = 1e-7;  // of onnxruntime: smaller scores are none for SOFTMAX_ZERO

// softmax() of the scores that are not 0; those that are stay 0.
Output softmax_zero(Output x) {
  const Output some = greater(abs(x), scalar_like(x, kAlmostZero));
  const Output greatest = max(x, {-1}, {.keep_dims = true});
  const Output e = select(some, exp(x - greatest), zeros_like(x));
  const Output total = sum(e, {-1}, {.keep_dims = true});
  return e / select(greater(total, scalar_like(total, 0)), total, ones_like(total));
}

// sqrt(2) erfinv(2 p - 1), with the approximation of erfinv by Winitzki (2008), as in onnxruntime.
Output probit(Output p) {
  constexpr double kA = 0.147;
  const Output x = p * 2.0 - 1.0;
  const Output log_part = log((1.0 - x) * (x + 1.0));
  const Output v = 2 / (std::numbers::pi * kA) + log_part * 0.5;
  return sign(x) * sqrt(sqrt(square(v) - log_part * (1 / kA)) - v) * std::numbers::sqrt2;
}

}  // namespace

Output post_transformed(Output scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "PROBIT") return probit(scores);
  if (transform != "LOGISTIC" && transform != "SOFTMAX" && transform != "SOFTMAX_ZERO")
    invalid_argument("attribute 'post_transform' must be NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT, not '{}'",
                     transform);
  const Shape& shape = scores.shape();
  if (shape.has_rank() && shape[-1] == 1) return scores;
  return transform == "LOGISTIC" ? sigmoid(scores) : transform == "SOFTMAX" ? softmax(scores) : softmax_zero(scores);
}

Output two_scores(Output score, bool positive, const std::string& transform) {
  const Output other = positive && transform != "LOGISTIC" ? 1.0 - score : -score;
  const Output both = concat({other, score}, 1);
  return transform == "LOGISTIC" || transform == "PROBIT" ? post_transformed(both, transform) : both;
}

Output feature_rows(Output x) {
  const Shape& shape = x.shape();
  if (shape.has_rank() && shape.rank() == 1) x = expand_dims(x, 0);
  return x.dtype() == DType::f64 ? x : cast(x, DType::f32);
}

Tensor class_labels(const OnnxNode& node, const char* integers, const char* strings) {
  const Integers numbers = node.integers(integers, Integers{});
  const std::vector<std::string> words = node.strings(strings, std::vector<std::string>{});
  if (numbers.empty() == words.empty())
    invalid_argument("needs one of the attributes '{}' and '{}'", integers, strings);
  return numbers.empty() ? Tensor::of<std::string>(Shape{std::ssize(words)}, words)
                         : Tensor::of<std::int64_t>(Shape{std::ssize(numbers)}, numbers);
}

void set_classes(OnnxNode& node, Output indices, Output scores, const Tensor& labels) {
  scores = cast(scores, DType::f32);
  node.set(0, gather(constant(node.graph(), labels), indices));
  node.set(1, scores, {.lists = {}, .dtype = scores.dtype(), .shape = scores.shape(), .classes = labels});
}

Tensor vector_of(const std::vector<double>& values, DType dtype) {
  Tensor out(dtype, Shape{std::ssize(values)});
  dispatch(WideFloatTypes{}, dtype, [&]<class T>() {
    T* to = out.mutable_data<T>();
    for (const double v : values) *to++ = static_cast<T>(v);
  });
  return out;
}

}  // namespace troupe
