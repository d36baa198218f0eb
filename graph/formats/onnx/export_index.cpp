// Ops that address elements by index or order them, as ONNX's.
#include <troupe/graph/formats/onnx/export_graph.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kFlat = 0;  // keepdims

Attributes one_attribute(const OnnxExportNode& node, const char* name) {
  return {{name, node.attributes().integer(name)}};
}

void write_gather(OnnxExportNode& node) {
  if (node.attributes().integer("batch_dims") != 0)
    fail(Code::unimplemented, "ONNX has no Gather with batch dimensions: use gather_nd, or gather_elements");
  node.set(node.add("Gather", {node.in(0), node.in(1)}, one_attribute(node, "axis")));
}
void write_gather_nd(OnnxExportNode& node) {
  node.set(node.add("GatherND", {node.in(0), node.in(1)}, one_attribute(node, "batch_dims")));
}
void write_gather_elements(OnnxExportNode& node) {
  node.set(node.add("GatherElements", {node.in(0), node.in(1)}, one_attribute(node, "axis")));
}

void write_scatter_add_rows(OnnxExportNode& node) {
  const OnnxName zeros = node.add("Expand", {node.number_like(1, 0), node.add("Shape", {node.in(2)})});
  const OnnxName rows = node.add("Unsqueeze", {node.in(0), node.integers({1})});
  node.set(node.add("ScatterND", {zeros, rows, node.in(1)}, {{"reduction", "add"}}));
}

// Extrema from opset 18 on.
std::string scatter_reduction(const OnnxExportNode& node) {
  const std::string& reduction = node.attributes().string("reduction");
  if (reduction == "max" || reduction == "min") node.need_opset(18);
  return reduction;
}
void write_scatter_nd(OnnxExportNode& node) {
  if (node.attributes().integer("batch_dims") != 0)
    fail(Code::unimplemented, "ONNX has no ScatterND with batch dimensions");
  node.set(node.add("ScatterND", node.all_inputs(), {{"reduction", scatter_reduction(node)}}));
}
void write_scatter_elements(OnnxExportNode& node) {
  node.set(node.add("ScatterElements", node.all_inputs(),
                    {{"axis", node.attributes().integer("axis")}, {"reduction", scatter_reduction(node)}}));
}

void write_non_zero(OnnxExportNode& node) { node.set(node.add("NonZero", {node.in(0)})); }

void write_cumsum(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  node.set(
      node.add("CumSum", node.all_inputs(),
               {{"exclusive", std::int64_t{a.boolean("exclusive")}}, {"reverse", std::int64_t{a.boolean("reverse")}}}));
}

// A number as a vector, which may be what it was made of.
OnnxName vector_of_one(const OnnxExportNode& node, int input) {
  const Endpoint number = node.endpoint(input);
  const Node& source = node.graph().node(number.node);
  if (!node.writer().is_given(number) && source.op->name == "Reshape" &&
      node.graph().shape(source.inputs[0]) == Shape{1})
    return node.writer().plain(source.inputs[0]);
  if (const auto known = node.known(input)) return node.constant(known->reshaped(Shape{1}));
  return node.add("Reshape", {node.in(input), node.integers({1})});
}

void write_top_k(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const OnnxName k = vector_of_one(node, 1);
  const OnnxNames found = node.add_many("TopK", {node.in(0), k}, 2,
                                        {{"axis", a.integer("axis")}, {"largest", std::int64_t{a.boolean("largest")}}});
  node.set(0, found[0]);
  node.set(1, found[1]);
}

void write_unique(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  Attributes options = {{"sorted", std::int64_t{a.boolean("sorted")}}};
  if (!a.integers("axes").empty()) options.set("axis", a.integers("axes")[0]);
  const OnnxNames found = node.add_many("Unique", {node.in(0)}, 4, options);
  for (int i = 0; i < 4; ++i) node.set(i, found[static_cast<std::size_t>(i)]);
}

// ---- order, as TopK of all elements

void write_sort(OnnxExportNode& node) {
  const std::int64_t axis = node.attributes().integer("axis");
  const OnnxName count = node.add("Gather", {node.add("Shape", {node.in(0)}), node.integers({axis})});
  const OnnxNames sorted = node.add_many("TopK", {node.in(0), count}, 2,
                                         {{"axis", axis}, {"largest", node.attributes().boolean("descending")}});
  node.set(sorted[node.node().op->name == "Sort" ? 0 : 1]);
}

// Places before which values would be inserted: how many of [..., n] are less, or not greater.
void write_search_sorted(OnnxExportNode& node) {
  const OnnxName last = node.integers({-1}), second = node.integers({-2});
  const OnnxName sorted = node.add("Unsqueeze", {node.in(0), second}),
                 values = node.add("Unsqueeze", {node.in(1), last});
  const bool right = node.attributes().boolean("right");
  const OnnxName before = node.add(right ? "LessOrEqual" : "Less", {sorted, values});
  const OnnxName ones = node.add("Cast", {before}, {{"to", DType::i64}});
  node.set(node.add("ReduceSum", {ones, last}, {{"keepdims", kFlat}}));
}

// ---- segments

OnnxName as_i64(const OnnxExportNode& node, int input) {
  return node.dtype(input) == DType::i64 ? node.in(input) : node.add("Cast", {node.in(input)}, {{"to", DType::i64}});
}

// Rows [segments, ...] that begin with a value; ids below 0 go to a row more, which is cut off.
OnnxName scattered_rows(const OnnxExportNode& node, const OnnxName& rows, double begin, const std::string& reduction) {
  const OnnxName one = node.integers({1}), zero = node.integers({0}), ids = as_i64(node, 1);
  const OnnxName segments = node.add("Reshape", {node.in(2), one}), more = node.add("Add", {segments, one});
  const OnnxName outside = node.add("Less", {ids, zero});
  const OnnxName safe = node.add("Where", {outside, segments, ids});
  const OnnxName row = node.add("Shape", {node.in(0)}, {{"start", node.rank(1)}});
  const OnnxName all = node.add("Concat", {more, row}, {{"axis", std::int64_t{0}}});
  const OnnxName data = node.add("Expand", {node.number_like(0, begin), all});
  const OnnxName places = node.add("Unsqueeze", {safe, node.integers({-1})});
  const OnnxName sums = node.add("ScatterND", {data, places, rows}, {{"reduction", reduction}});
  return node.add("Slice", {sums, zero, segments, zero});
}

void write_segment_reduce(OnnxExportNode& node) {
  const std::string& reduction = node.attributes().string("reduction");
  if (reduction == "sum") return node.set(scattered_rows(node, node.in(0), 0, "add"));
  if (reduction == "prod") return node.set(scattered_rows(node, node.in(0), 1, "mul"));
  if (reduction != "mean" || !is_floating(node.dtype(0)))
    fail(Code::unimplemented, "segments of reduction '{}' are not written", reduction);
  const OnnxName ones = node.add("Expand", {node.number_like(0, 1), node.add("Shape", {node.in(0)})});
  const OnnxName counts = scattered_rows(node, ones, 0, "add"), sums = scattered_rows(node, node.in(0), 0, "add");
  node.set(node.add("Div", {sums, node.add("Max", {counts, node.number_like(0, 1)})}));
}

// As many as the largest value needs, at least min_length.
void write_bincount(OnnxExportNode& node) {
  const OnnxName zero = node.integer(0), one = node.integer(1), vector = node.integers({-1});
  const OnnxName values = node.add("Reshape", {as_i64(node, 0), vector});
  const OnnxName least = node.add("Reshape", {node.add("Sub", {node.in(1), one}), node.integers({1})});
  const OnnxName all = node.add("Concat", {values, least}, {{"axis", std::int64_t{0}}});
  const OnnxName count = node.add("Add", {node.add_reduction("ReduceMax", all, {}), one});
  const OnnxName zeros = node.add("Expand", {zero, count});
  const OnnxName ones = node.add("Expand", {one, node.add("Shape", {values})});
  node.set(node.add("ScatterElements", {zeros, values, ones}, {{"reduction", "add"}}));
}

void write_dynamic_partition(OnnxExportNode& node) {
  const OnnxName vector = node.integers({-1}), partitions = node.add("Reshape", {as_i64(node, 1), vector});
  const OnnxName row = node.add("Shape", {node.in(0)}, {{"start", node.rank(1)}});
  const OnnxName shape = node.add("Concat", {vector, row}, {{"axis", std::int64_t{0}}});
  const OnnxName rows = node.add("Reshape", {node.in(0), shape});
  for (int i = 0; i < node.num_outputs(); ++i) {
    const OnnxName chosen = node.add("Equal", {partitions, node.integer(i)});
    node.set(i, node.add("Compress", {rows, chosen}, {{"axis", std::int64_t{0}}}));
  }
}

// y[x[i]] = i.
void write_invert_permutation(OnnxExportNode& node) {
  const OnnxName count = node.add("Size", {node.in(0)});
  const OnnxName places = node.add("Range", {node.integer(0), count, node.integer(1)});
  const OnnxName own = node.dtype(0) == DType::i64 ? places : node.add("Cast", {places}, {{"to", node.dtype(0)}});
  node.set(node.add("ScatterElements", {node.in(0), node.in(0), own}));
}

void write_max_unpool(OnnxExportNode& node) {
  const OnnxName flat = node.integers({-1});
  const OnnxName size = node.add("ReduceProd", {node.in(2)}, {{"keepdims", std::int64_t{1}}});
  const OnnxName zeros = node.add("Expand", {node.number_like(0, 0), size});
  const OnnxName indices = node.add("Reshape", {node.in(1), flat}), values = node.add("Reshape", {node.in(0), flat});
  const OnnxName y = node.add("ScatterElements", {zeros, indices, values});
  node.set(node.add("Reshape", {y, node.in(2)}, {{"allowzero", std::int64_t{1}}}));
}

constexpr OnnxExportOp kIndexWriters[] = {
    {"ArgSort", write_sort},
    {"Bincount", write_bincount},
    {"CumSum", write_cumsum},
    {"DynamicPartition", write_dynamic_partition},
    {"Gather", write_gather},
    {"GatherElements", write_gather_elements},
    {"GatherND", write_gather_nd},
    {"InvertPermutation", write_invert_permutation},
    {"MaxUnpool", write_max_unpool},
    {"NonZero", write_non_zero},
    {"ScatterAddRows", write_scatter_add_rows},
    {"ScatterElements", write_scatter_elements},
    {"ScatterND", write_scatter_nd},
    {"SearchSorted", write_search_sorted},
    {"SegmentReduce", write_segment_reduce},
    {"Sort", write_sort},
    {"TopK", write_top_k},
    {"Unique", write_unique},
};

}  // namespace

std::span<const OnnxExportOp> onnx_index_writers() { return kIndexWriters; }

}  // namespace troupe
