// ONNX's softmaxes, and its losses on classes.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

using Softmax = Output (*)(Output, SoftmaxOptions);

// Before opset 13, x is seen as a matrix: dimensions from `axis` on are one row.
Output of_rows(Softmax function, Output x, std::int64_t given) {
  const Shape& shape = x.shape();
  if (!shape.has_rank()) fail(Code::unimplemented, "the rank of the input must be known before opset 13");
  const std::int64_t axis = given < 0 ? given + shape.rank() : given;
  if (axis < 0 || axis > shape.rank())
    invalid_argument("axis {} is out of range: there are {} dimensions", given, shape.rank());
  if (axis == shape.rank() - 1) return function(x, {});
  const Shape of_row = shape.sub(static_cast<int>(axis), shape.rank());
  const std::int64_t row = of_row.fully_known() ? of_row.num_elements() : kUnknown;
  Output rows;
  if (row != kUnknown && row != 0) {
    rows = reshape(x, Shape{kUnknown, row});
  } else {
    const Output sizes = shape_of(x);
    const Output width = prod(slice(sizes, {axis}, {-1}), {}, {.keep_dims = true});
    const Output count = prod(slice(sizes, {0}, {axis}), {}, {.keep_dims = true});
    rows = reshape(x, concat({count, width}, 0));
  }
  return reshape_like(function(rows, {}), x);
}

template <Softmax function>
void softmax_node(OnnxNode& node) {
  if (node.opset() >= 13)
    node.set(function(node.in(0), {.axis = node.integer("axis", -1)}));
  else
    node.set(of_rows(function, node.in(0), node.integer("axis", 1)));
}

// Losses [n,...] of each label, and the weights that they were multiplied with; no weights: all are 1.
struct ClassLosses {
  Output each{};
  Output weights{};
};

void set_reduced(OnnxNode& node, const ClassLosses& losses) {
  const std::string reduction = node.string("reduction", "mean");
  if (reduction == "none") return node.set(losses.each);
  if (reduction == "sum") return node.set(sum(losses.each));
  if (reduction != "mean") invalid_argument("attribute 'reduction' is '{}', not none, sum or mean", reduction);
  if (!losses.weights.valid()) return node.set(mean(losses.each));
  const Output total = sum(losses.each);
  node.set(total / sum(losses.weights));
}

// The weight of each label, 0 if it is ignored; invalid if all are 1.
Output label_weights(OnnxNode& node, Output labels, DType dtype) {
  Output counted, safe = labels;
  if (node.has_attr("ignore_index")) {
    const Output ignored = constant<std::int64_t>(node.graph(), node.integer("ignore_index"));
    const Output counts = not_equal(labels, ignored);
    counted = cast(counts, dtype);
    safe = select(counts, labels, constant<std::int64_t>(node.graph(), 0));
  }
  if (!node.has(2)) return counted;
  const Output weights = gather(node.in(2), safe);
  return counted.valid() ? weights * counted : weights;
}

ClassLosses weighted(OnnxNode& node, Output losses, Output labels) {
  const Output weights = label_weights(node, labels, losses.dtype());
  return {weights.valid() ? losses * weights : losses, weights};
}

void nll_loss_node(OnnxNode& node) {
  const Output labels = cast(node.in(1), DType::i64);
  const Output picked = pick_classes(node.in(0), labels, 1);
  set_reduced(node, weighted(node, -picked, labels));
}

void softmax_cross_entropy_node(OnnxNode& node) {
  const Output scores = node.in(0);
  const Output labels = cast(node.in(1), DType::i64);
  const std::int64_t none = SparseCrossEntropyOptions::kNoLabel;
  const Output losses =
      sparse_softmax_cross_entropy(scores, labels, {.axis = 1, .ignore_index = node.integer("ignore_index", none)});
  // Those of ignored labels are 0 already.
  if (node.has(2))
    set_reduced(node, weighted(node, losses, labels));
  else if (node.string("reduction", "mean") == "mean")
    set_reduced(node, {losses, label_weights(node, labels, losses.dtype())});
  else
    set_reduced(node, {losses, {}});
  if (node.wants(1)) node.set(1, log_softmax(scores, {.axis = 1}));
}

constexpr OnnxOp kSoftmaxOps[] = {
    {"Hardmax", softmax_node<hardmax>},
    {"LogSoftmax", softmax_node<log_softmax>},
    {"NegativeLogLikelihoodLoss", nll_loss_node},
    {"Softmax", softmax_node<softmax>},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy_node},
};

}  // namespace

std::span<const OnnxOp> onnx_softmax_ops() { return kSoftmaxOps; }

}  // namespace troupe
