#include "troupe/graph/builder/random.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Output random(const char* op, Graph& graph, const Shape& shape, Attributes attributes, RandomOptions options) {
  attributes.set("T", options.dtype);
  attributes.set("shape", shape);
  attributes.set("seed", options.seed);
  return graph.output(graph.add({.op = op, .name = std::move(options.name), .attributes = std::move(attributes)}));
}

}  // namespace

Output random_uniform(Graph& graph, const Shape& shape, double minval, double maxval, RandomOptions options) {
  return random("RandomUniform", graph, shape, {{"minval", minval}, {"maxval", maxval}}, std::move(options));
}
Output random_normal(Graph& graph, const Shape& shape, double mean, double stddev, RandomOptions options) {
  return random("RandomNormal", graph, shape, {{"mean", mean}, {"stddev", stddev}}, std::move(options));
}
Output truncated_normal(Graph& graph, const Shape& shape, double mean, double stddev, RandomOptions options) {
  return random("TruncatedNormal", graph, shape, {{"mean", mean}, {"stddev", stddev}}, std::move(options));
}

Output random_exponential(Graph& graph, const Shape& shape, double rate, RandomOptions options) {
  Name name = std::move(options.name);
  options.name = {};
  const Output u = random_uniform(graph, shape, 0, 1, std::move(options));
  return mul(log(1 - u), scalar_like(u, -1 / rate), std::move(name));
}
Output random_integers(Graph& graph, const Shape& shape, std::int64_t minval, std::int64_t maxval,
                       RandomOptions options) {
  if (minval >= maxval || static_cast<double>(maxval) - static_cast<double>(minval) > 0x1p53)
    invalid_argument("random_integers: there must be 1 to 2^53 integers between minval {} and maxval {}", minval,
                     maxval);
  const double range = static_cast<double>(maxval) - static_cast<double>(minval);
  const Output u = random_uniform(graph, shape, 0, range, {.dtype = DType::f64, .seed = options.seed});
  const Output offset = cast(floor(u), DType::i64);
  return cast(add(offset, constant(graph, minval)), options.dtype, std::move(options.name));
}

Output bernoulli(Output p, RandomOptions options) {
  return add_op("Bernoulli", {p}, {{"seed", options.seed}}, std::move(options.name));
}
Output random_gamma(Output alpha, RandomOptions options) {
  return add_op("RandomGamma", {alpha}, {{"seed", options.seed}}, std::move(options.name));
}
Output random_poisson(Output rate, RandomOptions options) {
  return add_op("RandomPoisson", {rate}, {{"seed", options.seed}}, std::move(options.name));
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
