// Ops that address elements by index or order them, as ONNX's.
#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

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

// Of opset 17: none, add or mul.
std::string scatter_reduction(const OnnxExportNode& node) {
  const std::string& reduction = node.attributes().string("reduction");
  if (reduction != "none" && reduction != "add" && reduction != "mul")
    fail(Code::unimplemented, "ONNX's opset 17 has no scatter with reduction '{}'", reduction);
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

void write_top_k(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const OnnxName k = node.add("Reshape", {node.in(1), node.integers({1})});
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

constexpr OnnxExportOp kIndexWriters[] = {
    {"CumSum", write_cumsum},
    {"Gather", write_gather},
    {"GatherElements", write_gather_elements},
    {"GatherND", write_gather_nd},
    {"NonZero", write_non_zero},
    {"ScatterAddRows", write_scatter_add_rows},
    {"ScatterElements", write_scatter_elements},
    {"ScatterND", write_scatter_nd},
    {"TopK", write_top_k},
    {"Unique", write_unique},
};

}  // namespace

std::span<const OnnxExportOp> onnx_index_writers() { return kIndexWriters; }

}  // namespace troupe
