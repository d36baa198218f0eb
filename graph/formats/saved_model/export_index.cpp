// Ops that address elements by index or order them, as TensorFlow's.
#include <utility>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

void write_tf_gather(TfExportNode& node) {
  const Attributes& a = node.attributes();
  const std::int64_t axis = a.integer("axis");
  TfName indices = node.in(1);
  if (a.boolean("from_end")) {
    const TfName size = node.cast(node.dims_of(node.in(0), node.axis_of(axis), 1), node.dtype(1));
    const TfName below = node.add("Less", {indices, node.number_like(1, 0)});
    const TfName scalar = node.add("Reshape", {size, node.integers({})});
    indices = node.add("SelectV2", {below, node.add("AddV2", {indices, scalar}), indices});
  }
  node.set(node.add("GatherV2", {node.in(0), indices, node.integer(axis)}, {{"batch_dims", a.integer("batch_dims")}}));
}
void write_tf_gather_nd(TfExportNode& node) {
  if (node.attributes().integer("batch_dims") != 0)
    fail(Code::unimplemented, "TensorFlow's GatherNd has no batch dimensions");
  node.set(node.add("GatherNd", node.all_inputs()));
}
// Along the last axis, where all other dimensions are those of batches.
void write_tf_gather_elements(TfExportNode& node) {
  const int rank = node.rank(0);
  if (node.axis_of(node.attributes().integer("axis")) != rank - 1)
    fail(Code::unimplemented, "elements along an axis before the last are not written");
  for (int d = 0; d + 1 < rank; ++d)
    if (node.shape(0)[d] != node.shape(1)[d]) fail(Code::unimplemented, "its inputs must have equal dimensions");
  node.set(node.add("GatherV2", {node.in(0), node.in(1), node.integer(-1)}, {{"batch_dims", std::int64_t{rank - 1}}}));
}

void write_tf_scatter_nd(TfExportNode& node) {
  const std::string& reduction = node.attributes().string("reduction");
  const char* op = reduction == "none"  ? "TensorScatterUpdate"
                   : reduction == "add" ? "TensorScatterAdd"
                   : reduction == "max" ? "TensorScatterMax"
                   : reduction == "min" ? "TensorScatterMin"
                                        : nullptr;
  if (!op || node.attributes().integer("batch_dims") != 0)
    fail(Code::unimplemented, "scatters of reduction '{}' or with batch dimensions are not written", reduction);
  node.set(node.add(op, node.all_inputs()));
}
void write_tf_scatter_add_rows(TfExportNode& node) {
  const TfName rows = node.add("ExpandDims", {node.in(0), node.integer(1)});
  node.set(node.add("ScatterNd", {rows, node.in(1), node.shape_of(node.in(2))}));
}
void write_tf_non_zero(TfExportNode& node) { node.set(node.transposed(node.add("Where", {node.in(0)}), {1, 0})); }

void write_tf_cumulative(TfExportNode& node) {
  const Attributes& a = node.attributes();
  const TfName axis = node.add("Reshape", {node.in(1), node.integers({})});
  node.set(node.add(node.node().op->name == "CumSum" ? "Cumsum" : "Cumprod", {node.in(0), axis},
                    {{"exclusive", a.boolean("exclusive")}, {"reverse", a.boolean("reverse")}}));
}

// TensorFlow's finds the largest along the last axis.
TfNames top_of(const TfExportNode& node, const TfName& k, bool largest) {
  const int rank = node.rank(0);
  const auto axis = static_cast<std::size_t>(node.axis_of(node.attributes().integer("axis")));
  if (!largest && (is_unsigned(node.dtype(0)) || node.dtype(0) == DType::boolean))
    fail(Code::unimplemented, "the smallest of {} are not written", name(node.dtype(0)));
  Integers perm;
  for (int d = 0; d < rank; ++d) perm.push_back(d);
  std::swap(perm[axis], perm.back());
  const bool last = static_cast<int>(axis) == rank - 1;
  TfName x = last ? node.in(0) : node.transposed(node.in(0), perm);
  if (!largest) x = node.add("Neg", {x});
  TfNames found = node.add_many("TopKV2", {x, k}, {{"index_type", DType::i64}});
  if (!largest) found[0] = node.add("Neg", {found[0]});
  if (!last)
    for (TfName& y : found) y = node.transposed(y, perm);
  return found;
}
void write_tf_top_k(TfExportNode& node) {
  const TfName k = node.add("Reshape", {node.in(1), node.integers({})});
  node.set_all(top_of(node, k, node.attributes().boolean("largest")));
}
void write_tf_sort(TfExportNode& node) {
  const TfName size = node.dims_of(node.in(0), node.axis_of(node.attributes().integer("axis")), 1);
  const TfName count = node.add("Reshape", {size, node.integers({})});
  const TfNames found = top_of(node, count, node.attributes().boolean("descending"));
  node.set(found[node.node().op->name == "Sort" ? 0 : 1]);
}

void write_tf_segment_reduce(TfExportNode& node) {
  const std::string& reduction = node.attributes().string("reduction");
  const TfName segments = node.add("Reshape", {node.in(2), node.integers({})});
  const auto reduce = [&](const char* op, const TfName& x) { return node.add(op, {x, node.in(1), segments}); };
  if (reduction == "sum") return node.set(reduce("UnsortedSegmentSum", node.in(0)));
  if (reduction == "prod") return node.set(reduce("UnsortedSegmentProd", node.in(0)));
  if (reduction != "mean" || !is_floating(node.dtype(0)))
    fail(Code::unimplemented, "segments of reduction '{}' are not written", reduction);
  const TfName counts = reduce("UnsortedSegmentSum", node.add("OnesLike", {node.in(0)}));
  const TfName safe = node.add("Maximum", {counts, node.number_like(0, 1)});
  node.set(node.add("RealDiv", {reduce("UnsortedSegmentSum", node.in(0)), safe}));
}

constexpr TfExportOp kTfIndexWriters[] = {
    {"ArgSort", write_tf_sort},
    {"CumProd", write_tf_cumulative},
    {"CumSum", write_tf_cumulative},
    {"Gather", write_tf_gather},
    {"GatherElements", write_tf_gather_elements},
    {"GatherND", write_tf_gather_nd},
    {"NonZero", write_tf_non_zero},
    {"ScatterAddRows", write_tf_scatter_add_rows},
    {"ScatterND", write_tf_scatter_nd},
    {"SegmentReduce", write_tf_segment_reduce},
    {"Sort", write_tf_sort},
    {"TopK", write_tf_top_k},
};

}  // namespace

std::span<const TfExportOp> tensorflow_index_writers() { return kTfIndexWriters; }

}  // namespace troupe
