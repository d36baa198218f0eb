// Elementwise ops and reductions, as TensorFlow's.
#include <algorithm>
#include <vector>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

// Our op's name and TensorFlow's, where they mean the same.
constexpr std::pair<const char*, const char*> kSameTfOps[] = {
    {"Abs", "Abs"},
    {"Acos", "Acos"},
    {"Acosh", "Acosh"},
    {"Add", "AddV2"},
    {"AddN", "AddN"},
    {"Asin", "Asin"},
    {"Asinh", "Asinh"},
    {"Atan", "Atan"},
    {"Atan2", "Atan2"},
    {"Atanh", "Atanh"},
    {"BitwiseAnd", "BitwiseAnd"},
    {"BitwiseNot", "Invert"},
    {"BitwiseOr", "BitwiseOr"},
    {"BitwiseXor", "BitwiseXor"},
    {"Ceil", "Ceil"},
    {"Cos", "Cos"},
    {"Cosh", "Cosh"},
    {"Digamma", "Digamma"},
    {"Equal", "Equal"},
    {"Erf", "Erf"},
    {"Erfc", "Erfc"},
    {"Exp", "Exp"},
    {"Expm1", "Expm1"},
    {"Floor", "Floor"},
    {"FloorDiv", "FloorDiv"},
    {"FloorMod", "FloorMod"},
    {"Greater", "Greater"},
    {"GreaterEqual", "GreaterEqual"},
    {"Identity", "Identity"},
    {"LeftShift", "LeftShift"},
    {"Less", "Less"},
    {"LessEqual", "LessEqual"},
    {"Lgamma", "Lgamma"},
    {"Log", "Log"},
    {"Log1p", "Log1p"},
    {"LogicalAnd", "LogicalAnd"},
    {"LogicalNot", "LogicalNot"},
    {"LogicalOr", "LogicalOr"},
    {"Maximum", "Maximum"},
    {"Minimum", "Minimum"},
    {"Mul", "Mul"},
    {"Neg", "Neg"},
    {"NotEqual", "NotEqual"},
    {"OnesLike", "OnesLike"},
    {"Pow", "Pow"},
    {"Relu", "Relu"},
    {"RightShift", "RightShift"},
    {"Round", "Round"},
    {"Rsqrt", "Rsqrt"},
    {"Select", "SelectV2"},
    {"Sigmoid", "Sigmoid"},
    {"Sign", "Sign"},
    {"Sin", "Sin"},
    {"Sinh", "Sinh"},
    {"Softplus", "Softplus"},
    {"Softsign", "Softsign"},
    {"Sqrt", "Sqrt"},
    {"Square", "Square"},
    {"SquaredDifference", "SquaredDifference"},
    {"StopGradient", "StopGradient"},
    {"Sub", "Sub"},
    {"Tan", "Tan"},
    {"Tanh", "Tanh"},
    {"TruncateMod", "TruncateMod"},
    {"Xlogy", "Xlogy"},
    {"ZerosLike", "ZerosLike"},
};

void write_tf_same(TfExportNode& node) {
  const auto* found =
      std::ranges::find_if(kSameTfOps, [&](const auto& row) { return node.node().op->name == row.first; });
  for (int i = 0; i < node.num_inputs(); ++i)
    if (node.dtype(i) == DType::list) fail(Code::unimplemented, "it takes a list");
  node.set(node.add(found->second, node.all_inputs()));
}

// Of integers, ours rounds to zero.
void write_tf_div(TfExportNode& node) {
  node.set(node.add(is_floating(node.dtype(0)) ? "RealDiv" : "TruncateDiv", node.all_inputs()));
}
void write_tf_leaky_relu(TfExportNode& node) {
  node.set(node.add("LeakyRelu", {node.in(0)}, {{"alpha", node.attributes().real("alpha")}}));
}
void write_tf_cast(TfExportNode& node) { node.set(node.add("Cast", {node.in(0)}, {{"DstT", node.output_dtype()}})); }

// ---- shapes of others

void write_tf_shape(TfExportNode& node) { node.set(node.shape_of(node.in(0))); }
void write_tf_size(TfExportNode& node) { node.set(node.add("Size", {node.in(0)}, {{"out_type", DType::i64}})); }
void write_tf_broadcast_like(TfExportNode& node) {
  node.set(node.add("BroadcastTo", {node.in(0), node.shape_of(node.in(1))}));
}
void write_tf_reshape_like(TfExportNode& node) {
  node.set(node.add("Reshape", {node.in(0), node.shape_of(node.in(1))}));
}

// ---- reductions

// Without axes, ours reduces along all, TensorFlow's along none.
TfName axes_of(const TfExportNode& node) {
  const auto known = node.known_integers(1);
  if (!known) return node.in(1);
  if (!known->empty()) return node.integers(*known);
  if (node.shape(0).has_rank()) {
    Integers all;
    for (int d = 0; d < node.rank(0); ++d) all.push_back(d);
    return node.integers(all);
  }
  const TfName rank = node.add("Size", {node.shape_of(node.in(0))}, {{"out_type", DType::i64}});
  return node.add("Range", {node.integer(0), rank, node.integer(1)});
}
void write_tf_reduce(TfExportNode& node) {
  node.set(node.add(node.node().op->name, {node.in(0), axes_of(node)},
                    {{"keep_dims", node.attributes().boolean("keep_dims")}}));
}
void write_tf_arg_extreme(TfExportNode& node) {
  if (node.attributes().boolean("select_last_index")) fail(Code::unimplemented, "TensorFlow's are the first, not last");
  const Integers axis = node.integers_in(1, "its axis");
  node.set(node.add(node.node().op->name, {node.in(0), node.integer(axis.at(0))}, {{"output_type", DType::i64}}));
}
void write_tf_l2_loss(TfExportNode& node) {
  const TfName all = node.add("Reshape", {node.add("Square", {node.in(0)}), node.integers({-1})});
  node.set(node.add("Mul", {node.reduced("Sum", all, {0}, false), node.number_like(0, 0.5)}));
}

constexpr TfExportOp kTfMathWriters[] = {
    {"All", write_tf_reduce},
    {"Any", write_tf_reduce},
    {"ArgMax", write_tf_arg_extreme},
    {"ArgMin", write_tf_arg_extreme},
    {"BroadcastLike", write_tf_broadcast_like},
    {"Cast", write_tf_cast},
    {"Div", write_tf_div},
    {"L2Loss", write_tf_l2_loss},
    {"LeakyRelu", write_tf_leaky_relu},
    {"Max", write_tf_reduce},
    {"Mean", write_tf_reduce},
    {"Min", write_tf_reduce},
    {"Prod", write_tf_reduce},
    {"ReshapeLike", write_tf_reshape_like},
    {"Shape", write_tf_shape},
    {"Size", write_tf_size},
    {"Sum", write_tf_reduce},
};

}  // namespace

std::span<const TfExportOp> tensorflow_math_writers() {
  static const std::vector<TfExportOp> all = [] {
    std::vector<TfExportOp> out(std::begin(kTfMathWriters), std::end(kTfMathWriters));
    for (const auto& [ours, theirs] : kSameTfOps) out.push_back({ours, write_tf_same});
    return out;
  }();
  return all;
}

}  // namespace troupe
