#include "troupe/graph/training/all_reduce.hpp"

#include <algorithm>
#include <map>
#include <tuple>

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

// The mean of a sparse gradient as the rows that any rank has, ascending.
Gradient reduce_rows(Graph& graph, const GradientAndVariable& g, SparseMean sparse_mean) {
  const auto scope = graph.scope("rows");
  const Output indices = g.gradient.indices, values = g.gradient.values;
  const Output dims = shape_of(indices);
  const Output one = constant(graph, std::int32_t{1});
  const Output all = constant(graph, Tensor::vector<std::int64_t>({g.variable.shape[0]}));
  const Output zero = constant(graph, std::int32_t{0});
  const Output ones = fill(dims, one), none = fill(all, zero);
  const Output own = minimum(scatter_add_rows(indices, ones, none), one);
  const Output ranks = all_reduce(own, {.reduction = "sum", .name = "ranks"});  // by row: those that have it
  const Output rows = reshape(non_zero(ranks), Shape{kUnknown});
  const Shape row = g.variable.shape.without(0);
  const Output row_dims = constant(graph, Tensor::of<std::int64_t>(Shape{row.rank()}, row.dims()));
  const Output count = shape_of(rows);
  const Output sum_dims = concat({count, row_dims}, 0);
  const Output nothing = constant(graph, Tensor::zeros(values.dtype(), Shape{}));
  const Output empty = fill(sum_dims, nothing);
  const Output places = search_sorted(rows, indices);
  const Output placed = scatter_add_rows(places, values, empty);
  if (sparse_mean == SparseMean::all_slots) return {.indices = rows, .values = all_reduce(placed, {.name = "mean"})};
  const Output total = all_reduce(placed, {.reduction = "sum", .name = "sum"});
  Output touching = cast(gather(ranks, rows), values.dtype());
  for (int axis = 1; axis < g.variable.shape.rank(); ++axis) touching = expand_dims(touching, axis);
  return {.indices = rows, .values = div(total, touching)};
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
  std::vector<GradientAndVariable> sparse;
  for (const GradientAndVariable& g : out) {
    const Shape& shape = g.gradient.is_sparse() ? g.variable.shape : g.gradient.dense.shape();
    if (!shape.fully_known())
      invalid_argument("the gradient of '{}' has shape {}: ranks can only exchange tensors of known shape",
                       g.variable.name, shape.to_string());
    if (!g.gradient.is_sparse()) continue;
    const auto device = graph.on_device(g.variable.handle.source().device);
    const auto inner = graph.scope(g.variable.name);
    sparse.push_back({.gradient = reduce_rows(graph, g, options.sparse_mean), .variable = g.variable});
  }
  std::erase_if(out, [](const GradientAndVariable& g) { return g.gradient.is_sparse(); });
  for (const Bucket& bucket : make_buckets(out, options.bucket_bytes)) {
    const auto device = graph.on_device(out[bucket[0]].variable.handle.source().device);
    reduce_bucket(bucket, out);
  }
  std::vector<GradientAndVariable> all;
  for (auto [dense_one, sparse_one, given] = std::tuple(out.begin(), sparse.begin(), gradients.begin());
       given != gradients.end(); ++given)
    all.push_back(given->gradient.is_sparse() ? std::move(*sparse_one++) : std::move(*dense_one++));
  return all;
}

}  // namespace troupe
