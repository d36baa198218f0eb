#include "troupe/graph/training/all_reduce.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/training/backprop_order.hpp>

namespace troupe {
namespace {

// Channel 0 is for collectives that programs call directly.
std::int64_t next_channel(const Graph& graph) {
  std::int64_t channel = 1;
  for (int id = 0; id < graph.size(); ++id)
    if (graph.node(id).op->role == OpRole::contribute)
      channel = std::max(channel, graph.node(id).attributes.integer("channel") + 1);
  return channel;
}

// Positions in the list of gradients.
using Bucket = std::vector<std::size_t>;

std::vector<Bucket> make_buckets(std::span<const GradientAndVariable> gradients, std::size_t bucket_bytes) {
  std::vector<Bucket> full;
  std::map<DType, std::pair<Bucket, std::size_t>> open;
  for (const std::size_t i : backprop_order(gradients)) {
    const Output& gradient = gradients[i].gradient.dense;
    auto& [bucket, bytes] = open[gradient.dtype()];
    bucket.push_back(i);
    bytes += checked_bytes(gradient.dtype(), gradient.shape());
    if (bytes < bucket_bytes) continue;
    full.push_back(std::move(bucket));
    open.erase(gradient.dtype());
  }
  for (auto& [dtype, rest] : open) full.push_back(std::move(rest.first));
  return full;
}

// Reduces a bucket as one flat tensor and splits the result.
void reduce_bucket(const Bucket& bucket, std::vector<GradientAndVariable>& gradients) {
  if (bucket.size() == 1) {
    Output& gradient = gradients[bucket[0]].gradient.dense;
    gradient = all_reduce(gradient);
    return;
  }
  Outputs flat;
  Integers sizes;
  for (const std::size_t i : bucket) {
    const Output& gradient = gradients[i].gradient.dense;
    flat.push_back(reshape(gradient, Shape{gradient.shape().num_elements()}));
    sizes.push_back(gradient.shape().num_elements());
  }
  const Outputs means = split_sizes(all_reduce(concat(flat, 0)), 0, sizes);
  for (std::size_t k = 0; k < bucket.size(); ++k) {
    Output& gradient = gradients[bucket[k]].gradient.dense;
    gradient = reshape(means[k], gradient.shape());
  }
}

// 1 for each row of the variable that this rank's gradient has, else 0.
Output touched_rows(const GradientAndVariable& g) {
  const Output& values = g.gradient.values;
  const auto device = values.graph->on_device(g.variable.handle.source().device);
  const Output once = add_op("SlotsTouching", {g.gradient.indices}, {{"T", values.dtype()}});
  const Output none = constant(*values.graph, Tensor::zeros(values.dtype(), Shape{g.variable.shape[0]}));
  const Output one = scalar_like(once, 1);
  return minimum(scatter_add_rows(g.gradient.indices, once, none), one);
}

}  // namespace

Output all_reduce(Output x, const AllReduceOptions& options) {
  if (!x.valid()) invalid_argument("all_reduce: the input is not a tensor");
  Graph& graph = *x.graph;
  const std::int64_t channel = next_channel(graph);
  const Shape shape = x.shape();
  const DType dtype = x.dtype();
  const std::string name = graph.unique_name(options.name).substr(graph.current_scope().size());
  const Output given = graph.output(graph.add({.op = "Contribute",
                                               .name = name + "/contribute",
                                               .inputs = {x},
                                               .attributes = {{"channel", channel}, {"reduction", options.reduction}},
                                               .device = x.source().device}));
  return graph.output(graph.add({.op = "Collect",
                                 .name = name,
                                 .attributes = {{"T", dtype}, {"shape", shape}, {"channel", channel}},
                                 .controls = {given},
                                 .device = x.source().device,
                                 .colocate_with = given.source().name}));
}

std::vector<GradientAndVariable> all_reduce_gradients(Graph& graph, std::span<const GradientAndVariable> gradients,
                                                      const GradientsOptions& options) {
  const auto scope = graph.scope("mean_gradients");
  std::vector<GradientAndVariable> out(gradients.begin(), gradients.end());
  std::map<std::size_t, Output> touched;  // by position, if requested: the fraction of ranks that have each row
  for (std::size_t i = 0; i < out.size(); ++i) {
    GradientAndVariable& g = out[i];
    if (g.gradient.is_sparse() && options.sparse_mean == SparseMean::touching_slots) touched[i] = touched_rows(g);
    if (!g.gradient.is_dense()) g.gradient = {.dense = dense(g.gradient, g.variable.read())};
    if (!g.gradient.dense.shape().fully_known())
      invalid_argument("the gradient of '{}' has shape {}: ranks can only exchange tensors of known shape",
                       g.variable.name, g.gradient.dense.shape().to_string());
  }
  for (const Bucket& bucket : make_buckets(out, options.bucket_bytes)) {
    const auto device = graph.on_device(out[bucket[0]].variable.handle.source().device);
    reduce_bucket(bucket, out);
  }
  for (const auto& [i, rows] : touched) {
    Output& gradient = out[i].gradient.dense;
    Output part = all_reduce(rows);
    for (int axis = 1; axis < gradient.shape().rank(); ++axis) part = expand_dims(part, axis);
    // A row that no rank has is 0.
    gradient = div(gradient, maximum(part, scalar_like(part, std::numeric_limits<float>::min())));
  }
  return out;
}

}  // namespace troupe
