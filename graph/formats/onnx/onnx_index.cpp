// ONNX's ops that address elements by index or order them.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

void gather_node(OnnxNode& node) {
  node.set(gather(node.in(0), node.in(1), {.axis = node.integer("axis", 0), .from_end = true}));
}
void gather_elements_node(OnnxNode& node) {
  node.set(gather_elements(node.in(0), node.in(1), node.integer("axis", 0)));
}
void gather_nd_node(OnnxNode& node) {
  node.set(gather_nd(node.in(0), node.in(1), {.batch_dims = node.integer("batch_dims", 0)}));
}

void scatter_elements_node(OnnxNode& node) {
  node.set(scatter_elements(node.in(0), node.in(1), node.in(2),
                            {.axis = node.integer("axis", 0), .reduction = node.string("reduction", "none")}));
}
void scatter_nd_node(OnnxNode& node) {
  node.set(tensor_scatter(node.in(0), node.in(1), node.in(2), {.reduction = node.string("reduction", "none")}));
}

void non_zero_node(OnnxNode& node) { node.set(non_zero(node.in(0))); }

void compress_node(OnnxNode& node) {
  if (node.has_attr("axis")) return node.set(compress(node.in(0), node.in(1), node.integer("axis")));
  const Output flat = reshape(node.in(0), Shape{kUnknown});
  node.set(compress(flat, node.in(1), 0));
}

void unique_node(OnnxNode& node) {
  UniqueOptions options{.sorted = node.integer("sorted", 1) != 0};
  if (node.has_attr("axis")) options.axes = {node.integer("axis")};
  const Unique found = unique(node.in(0), options);
  node.set(0, found.values);
  node.set(1, found.indices);
  node.set(2, found.inverse);
  node.set(3, found.counts);
}

// k is an attribute before opset 10.
void top_k_node(OnnxNode& node) {
  const Output k = node.has_attr("k") ? constant<std::int64_t>(node.graph(), node.integer("k"))
                                      : as_scalar(cast(node.in(1), DType::i64));
  const TopK found =
      top_k(node.in(0), k, {.axis = node.integer("axis", -1), .largest = node.integer("largest", 1) != 0});
  node.set(0, found.values);
  node.set(1, found.indices);
}

void cumsum_node(OnnxNode& node) {
  const Output axis = as_scalar(cast(node.in(1), DType::i64));
  node.set(cumsum(node.in(0), axis,
                  {.exclusive = node.integer("exclusive", 0) != 0, .reverse = node.integer("reverse", 0) != 0}));
}

constexpr OnnxOp kIndexOps[] = {
    {"Compress", compress_node},
    {"CumSum", cumsum_node},
    {"Gather", gather_node},
    {"GatherElements", gather_elements_node},
    {"GatherND", gather_nd_node},
    {"NonZero", non_zero_node},
    {"Scatter", scatter_elements_node},
    {"ScatterElements", scatter_elements_node},
    {"ScatterND", scatter_nd_node},
    {"TopK", top_k_node},
    {"Unique", unique_node},
};

}  // namespace

std::span<const OnnxOp> onnx_index_ops() { return kIndexOps; }

}  // namespace troupe
