#include "troupe/graph/builder/random.hpp"

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

}  // namespace troupe
