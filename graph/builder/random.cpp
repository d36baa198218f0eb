#include "troupe/graph/builder/random.hpp"

#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Output dims_of(Graph& graph, const Shape& shape) {
  if (!shape.fully_known())
    invalid_argument("the shape of random values must be fully known, not {}", shape.to_string());
  return constant(graph, Tensor::of<std::int64_t>(Shape{shape.rank()}, shape.dims()));
}

Output random(const char* op, Output shape, Attributes attributes, RandomOptions options) {
  attributes.set("T", options.dtype);
  attributes.set("seed", options.seed);
  return add_op(op, {cast(shape, DType::i64)}, std::move(attributes), std::move(options.name));
}

}  // namespace

Output random_uniform(Output shape, double minval, double maxval, RandomOptions options) {
  return random("RandomUniform", shape, {{"minval", minval}, {"maxval", maxval}}, std::move(options));
}
Output random_uniform(Graph& graph, const Shape& shape, double minval, double maxval, RandomOptions options) {
  return random_uniform(dims_of(graph, shape), minval, maxval, std::move(options));
}
Output random_normal(Output shape, double mean, double stddev, RandomOptions options) {
  return random("RandomNormal", shape, {{"mean", mean}, {"stddev", stddev}}, std::move(options));
}
Output random_normal(Graph& graph, const Shape& shape, double mean, double stddev, RandomOptions options) {
  return random_normal(dims_of(graph, shape), mean, stddev, std::move(options));
}
Output truncated_normal(Output shape, double mean, double stddev, RandomOptions options) {
  return random("TruncatedNormal", shape, {{"mean", mean}, {"stddev", stddev}}, std::move(options));
}
Output truncated_normal(Graph& graph, const Shape& shape, double mean, double stddev, RandomOptions options) {
  return truncated_normal(dims_of(graph, shape), mean, stddev, std::move(options));
}

Output random_exponential(Output shape, double rate, RandomOptions options) {
  Name name = std::move(options.name);
  options.name = {};
  const Output u = random_uniform(shape, 0, 1, std::move(options));
  return mul(log(1 - u), scalar_like(u, -1 / rate), std::move(name));
}
Output random_exponential(Graph& graph, const Shape& shape, double rate, RandomOptions options) {
  return random_exponential(dims_of(graph, shape), rate, std::move(options));
}

Output random_integers(Output shape, Output low, Output high, RandomOptions options) {
  return add_op("RandomIntegers", {cast(shape, DType::i64), low, high}, {{"seed", options.seed}},
                std::move(options.name));
}
Output random_integers(Graph& graph, const Shape& shape, std::int64_t low, std::int64_t high, RandomOptions options) {
  using Limits = std::numeric_limits<std::int32_t>;
  const Output dims = dims_of(graph, shape);
  if (options.dtype == DType::i32 && low >= Limits::min() && high <= Limits::max()) {
    const Output first = constant(graph, static_cast<std::int32_t>(low));
    const Output end = constant(graph, static_cast<std::int32_t>(high));
    return random_integers(dims, first, end, std::move(options));
  }
  Name name = std::move(options.name);
  const DType dtype = options.dtype;
  options.name = dtype == DType::i64 ? std::move(name) : Name{};
  const Output first = constant(graph, low), end = constant(graph, high);
  const Output drawn = random_integers(dims, first, end, std::move(options));
  return dtype == DType::i64 ? drawn : cast(drawn, dtype, std::move(name));
}

Output bernoulli(Output p, RandomOptions options) {
  return add_op("Bernoulli", {std::move(p)}, {{"seed", options.seed}}, std::move(options.name));
}
Output random_gamma(Output alpha, RandomOptions options) {
  return add_op("RandomGamma", {std::move(alpha)}, {{"seed", options.seed}}, std::move(options.name));
}
Output random_poisson(Output rate, RandomOptions options) {
  return add_op("RandomPoisson", {std::move(rate)}, {{"seed", options.seed}}, std::move(options.name));
}
Output multinomial(Output logits, IntegersArg count, RandomOptions options) {
  return add_op("Multinomial", {logits, count.scalar_in(logits)}, {{"seed", options.seed}}, std::move(options.name));
}
Output random_permutation(Output n, RandomOptions options) {
  return add_op("RandomPermutation", {cast(n, DType::i64)}, {{"seed", options.seed}}, std::move(options.name));
}
Output random_permutation(Graph& graph, std::int64_t n, RandomOptions options) {
  return random_permutation(constant(graph, n), std::move(options));
}
Output shuffle(Output x, RandomOptions options) {
  Name name = std::move(options.name);
  options.name = {};
  const Output rows = reshape(slice(shape_of(x), {0}, {1}), Shape{});
  return gather(x, random_permutation(rows, std::move(options)), {.name = std::move(name)});
}

}  // namespace troupe
