// Elementwise ops and reductions, as ONNX's.
#include <algorithm>
#include <numbers>
#include <vector>

#include <troupe/graph/formats/onnx/export_graph.hpp>

namespace troupe {
namespace {

// ---- elementwise

// The inputs of an elementwise node: as NCHW if one exists only so.
struct Operands {
  OnnxNames names;
  bool images = false;
};
Operands operands(const OnnxExportNode& node) {
  Operands out;
  const Shape& y = node.output_shape();
  if (node.any_images() && y.has_rank() && y.rank() == 4) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const auto operand = node.image_operand(i);
      if (!operand) break;
      out.names.push_back(*operand);
    }
    out.images = std::ssize(out.names) == node.num_inputs();
    if (out.images) return out;
  }
  out.names = node.all_inputs();
  return out;
}

void set(const OnnxExportNode& node, const Operands& of, const OnnxName& value) {
  of.images ? node.set_images(0, value) : node.set(value);
}

// Our op's name and ONNX's, where they mean the same.
constexpr std::pair<const char*, const char*> kSame[] = {
    {"Abs", "Abs"},
    {"Acos", "Acos"},
    {"Acosh", "Acosh"},
    {"Add", "Add"},
    {"AddN", "Sum"},
    {"Asin", "Asin"},
    {"Asinh", "Asinh"},
    {"Atan", "Atan"},
    {"Atanh", "Atanh"},
    {"Ceil", "Ceil"},
    {"Cos", "Cos"},
    {"Cosh", "Cosh"},
    {"Div", "Div"},
    {"Equal", "Equal"},
    {"Erf", "Erf"},
    {"Exp", "Exp"},
    {"Floor", "Floor"},
    {"Greater", "Greater"},
    {"GreaterEqual", "GreaterOrEqual"},
    {"Less", "Less"},
    {"LessEqual", "LessOrEqual"},
    {"Log", "Log"},
    {"LogicalAnd", "And"},
    {"LogicalNot", "Not"},
    {"LogicalOr", "Or"},
    {"Maximum", "Max"},
    {"Minimum", "Min"},
    {"Mul", "Mul"},
    {"Neg", "Neg"},
    {"Pow", "Pow"},
    {"Relu", "Relu"},
    {"Round", "Round"},
    {"Select", "Where"},
    {"Sigmoid", "Sigmoid"},
    {"Sign", "Sign"},
    {"Sin", "Sin"},
    {"Sinh", "Sinh"},
    {"Softplus", "Softplus"},
    {"Softsign", "Softsign"},
    {"Sqrt", "Sqrt"},
    {"Sub", "Sub"},
    {"Tan", "Tan"},
    {"Tanh", "Tanh"},
};

void write_same(OnnxExportNode& node) {
  const auto found = std::ranges::find_if(kSame, [&](const auto& row) { return node.node().op->name == row.first; });
  const Operands x = operands(node);
  set(node, x, node.add(found->second, x.names));
}

void write_square(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Mul", {x.names[0], x.names[0]}));
}
void write_rsqrt(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Reciprocal", {node.add("Sqrt", x.names)}));
}
void write_log1p(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Log", {node.add("Add", {x.names[0], node.number_like(0, 1)})}));
}
void write_expm1(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Sub", {node.add("Exp", x.names), node.number_like(0, 1)}));
}
void write_erfc(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Sub", {node.number_like(0, 1), node.add("Erf", x.names)}));
}
// Of integers, ONNX's Div rounds to zero and its Mod has the sign of the divisor.
void write_floor_div(OnnxExportNode& node) {
  const Operands x = operands(node);
  if (is_floating(node.dtype(0))) return set(node, x, node.add("Floor", {node.add("Div", x.names)}));
  const OnnxName rest = node.add("Mod", x.names);
  set(node, x, node.add("Div", {node.add("Sub", {x.names[0], rest}), x.names[1]}));
}
void write_floor_mod(OnnxExportNode& node) {
  const Operands x = operands(node);
  if (!is_floating(node.dtype(0))) return set(node, x, node.add("Mod", x.names));
  const OnnxName whole = node.add("Floor", {node.add("Div", x.names)});
  set(node, x, node.add("Sub", {x.names[0], node.add("Mul", {whole, x.names[1]})}));
}
void write_truncate_mod(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Mod", x.names, {{"fmod", std::int64_t{1}}}));
}
void write_shift(OnnxExportNode& node) {
  if (!is_unsigned(node.dtype(0))) fail(Code::unimplemented, "ONNX shifts unsigned integers only");
  const Operands x = operands(node);
  const char* direction = node.node().op->name == "LeftShift" ? "LEFT" : "RIGHT";
  set(node, x, node.add("BitShift", x.names, {{"direction", direction}}));
}
// From opset 18 on.
void write_bitwise(OnnxExportNode& node) {
  node.need_opset(18);
  const Operands x = operands(node);
  set(node, x, node.add(node.node().op->name, x.names));
}
// The angle of (x, y) from that of y / x, which is right where x > 0.
void write_atan2(OnnxExportNode& node) {
  const Operands o = operands(node);
  const OnnxName y = o.names[0], x = o.names[1], zero = node.number_like(0, 0);
  const OnnxName pi = node.number_like(0, std::numbers::pi), half = node.number_like(0, std::numbers::pi / 2);
  const OnnxName angle = node.add("Atan", {node.add("Div", {y, x})}), below = node.add("Less", {y, zero});
  const OnnxName turned = node.add("Where", {below, node.add("Sub", {angle, pi}), node.add("Add", {angle, pi})});
  const OnnxName sign = node.add("Sign", {y});
  const OnnxName upright = node.add("Mul", {sign, half});
  const OnnxName left = node.add("Where", {node.add("Less", {x, zero}), turned, upright});
  set(node, o, node.add("Where", {node.add("Greater", {x, zero}), angle, left}));
}
// x log(y), 0 where x is 0.
void write_xlogy(OnnxExportNode& node) {
  const Operands o = operands(node);
  const OnnxName zero = node.number_like(0, 0), none = node.add("Equal", {o.names[0], zero});
  const OnnxName safe = node.add("Where", {none, node.number_like(0, 1), o.names[1]});
  set(node, o, node.add("Mul", {o.names[0], node.add("Log", {safe})}));
}
// Filters in bytes that only a convolution reads are written by it.
bool is_filter_of_conv(const OnnxExportNode& node) {
  const Endpoint y{node.node().id, 0};
  const std::vector<const Node*> readers = node.writer().readers(y);
  return !node.writer().is_given(y) && readers.size() == 1 && readers[0] && readers[0]->op->name == "Conv" &&
         readers[0]->inputs[1] == y && readers[0]->attributes.string("data_format") == "channels_last" &&
         node.rank(0) == 4 && node.weights(0);
}

void write_quantize(OnnxExportNode& node) {
  if (node.dtype(1) != DType::f32) fail(Code::unimplemented, "its scale must be f32");
  const std::string& op = node.node().op->name;
  const Shape& scale = node.shape(1);
  const bool one = scale.fully_known() && scale.num_elements() == 1;
  if (op == "DequantizeLinear" && is_filter_of_conv(node)) return node.defer();
  if (one && node.has_images(0)) return node.set_images(0, node.add(op, {node.images(0), node.in(1), node.in(2)}));
  node.set(
      node.add(op, node.all_inputs(), one ? Attributes{} : Attributes{{"axis", node.attributes().integer("axis")}}));
}
void write_leaky_relu(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("LeakyRelu", x.names, {{"alpha", node.attributes().real("alpha")}}));
}
void write_squared_difference(OnnxExportNode& node) {
  const Operands x = operands(node);
  const OnnxName d = node.add("Sub", x.names);
  set(node, x, node.add("Mul", {d, d}));
}
void write_not_equal(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Not", {node.add("Equal", x.names)}));
}
void write_cast(OnnxExportNode& node) {
  const Operands x = operands(node);
  set(node, x, node.add("Cast", x.names, {{"to", node.output_dtype()}}));
}
void write_identity(OnnxExportNode& node) {
  if (node.dtype(0) == DType::list) return node.set(node.in(0));
  const Operands x = operands(node);
  set(node, x, node.add("Identity", x.names));
}

// ---- shapes of others

void write_shape(OnnxExportNode& node) { node.set(node.add("Shape", {node.in(0)})); }
void write_size(OnnxExportNode& node) { node.set(node.add("Size", {node.in(0)})); }
void write_broadcast_like(OnnxExportNode& node) {
  node.set(node.add("Expand", {node.in(0), node.add("Shape", {node.in(1)})}));
}
template <int kValue>
void write_filled_like(OnnxExportNode& node) {
  const OnnxName dims = node.add("Shape", {node.in(0)});
  node.set(node.add("Expand", {node.number_like(0, kValue), dims}));
}
void write_sum_to_like(OnnxExportNode& node) {
  const Shape &x = node.shape(0), &like = node.shape(1);
  if (!x.has_rank() || !like.has_rank() || !like.fully_known())
    fail(Code::unimplemented, "the shape of its input 1 must be known");
  Integers axes;
  for (int d = 0; d < x.rank(); ++d) {
    const int own = d - (x.rank() - like.rank());
    if (own < 0 || (like[own] == 1 && x[d] != 1)) axes.push_back(d);
  }
  const OnnxName sum = axes.empty() ? node.in(0) : node.add("ReduceSum", {node.in(0), node.integers(axes)});
  node.set(node.add("Reshape", {sum, node.integers({like.dims().begin(), like.dims().end()})}));
}

// ---- reductions

// Reductions of images over height and width need no Transpose.
bool reduces_images(const OnnxExportNode& node, const Integers& axes, bool keep) {
  if (!node.has_images(0)) return false;
  Integers places;
  for (const std::int64_t a : axes) places.push_back(OnnxExportNode::images_axis(a));
  std::ranges::sort(places);
  return keep || places == Integers{2, 3} || places.empty();
}

void write_reduce(OnnxExportNode& node) {
  const std::string op = "Reduce" + node.node().op->name;
  const bool keep = node.attributes().boolean("keep_dims");
  if (!node.known(1)) {
    if (op != "ReduceSum") node.need_opset(18);  // where axes are an input
    return node.set(node.add(op, {node.in(0), node.in(1)}, {{"keepdims", keep}}));
  }
  Integers axes = node.known_integers(1, "its axes");
  const bool images = reduces_images(node, axes, keep);
  if (images)
    for (std::int64_t& a : axes) a = OnnxExportNode::images_axis(a);
  const OnnxName y = node.add_reduction(op, images ? node.images(0) : node.in(0), axes, keep);
  if (images && keep) return node.set_images(0, y);
  node.set(y);
}

// ONNX reduces no bool.
void write_reduce_bools(OnnxExportNode& node) {
  const OnnxName x = node.add("Cast", {node.in(0)}, {{"to", DType::i32}});
  const OnnxName y = node.add_reduction(node.node().op->name == "All" ? "ReduceMin" : "ReduceMax", x,
                                        node.known_integers(1, "its axes"), node.attributes().boolean("keep_dims"));
  node.set(node.add("Cast", {y}, {{"to", DType::boolean}}));
}

void write_arg_extreme(OnnxExportNode& node) {
  const Integers axis = node.known_integers(1, "its axis");
  node.set(node.add(node.node().op->name, {node.in(0)},
                    {{"axis", axis.at(0)},
                     {"keepdims", std::int64_t{0}},
                     {"select_last_index", std::int64_t{node.attributes().boolean("select_last_index") ? 1 : 0}}}));
}

void write_l2_loss(OnnxExportNode& node) {
  const OnnxName x = node.in(0), squares = node.add("Mul", {x, x});
  const OnnxName sum = node.add("ReduceSum", {squares}, {{"keepdims", std::int64_t{0}}});
  node.set(node.add("Mul", {sum, node.number_like(0, 0.5)}));
}

constexpr OnnxExportOp kOther[] = {
    {"All", write_reduce_bools},
    {"Any", write_reduce_bools},
    {"ArgMax", write_arg_extreme},
    {"ArgMin", write_arg_extreme},
    {"AsString", write_cast},
    {"Atan2", write_atan2},
    {"BitwiseAnd", write_bitwise},
    {"BitwiseNot", write_bitwise},
    {"BitwiseOr", write_bitwise},
    {"BitwiseXor", write_bitwise},
    {"BroadcastLike", write_broadcast_like},
    {"Cast", write_cast},
    {"DequantizeLinear", write_quantize},
    {"Erfc", write_erfc},
    {"Expm1", write_expm1},
    {"FloorDiv", write_floor_div},
    {"FloorMod", write_floor_mod},
    {"Identity", write_identity},
    {"L2Loss", write_l2_loss},
    {"LeakyRelu", write_leaky_relu},
    {"LeftShift", write_shift},
    {"Log1p", write_log1p},
    {"Max", write_reduce},
    {"Mean", write_reduce},
    {"Min", write_reduce},
    {"NotEqual", write_not_equal},
    {"OnesLike", write_filled_like<1>},
    {"Prod", write_reduce},
    {"QuantizeLinear", write_quantize},
    {"RightShift", write_shift},
    {"Rsqrt", write_rsqrt},
    {"Shape", write_shape},
    {"Size", write_size},
    {"Square", write_square},
    {"SquaredDifference", write_squared_difference},
    {"StopGradient", write_identity},
    {"StringToNumber", write_cast},
    {"Sum", write_reduce},
    {"SumToLike", write_sum_to_like},
    {"TruncateMod", write_truncate_mod},
    {"Xlogy", write_xlogy},
    {"ZerosLike", write_filled_like<0>},
};

}  // namespace

std::span<const OnnxExportOp> onnx_math_writers() {
  static const std::vector<OnnxExportOp> all = [] {
    std::vector<OnnxExportOp> out(std::begin(kOther), std::end(kOther));
    for (const auto& [ours, theirs] : kSame) out.push_back({ours, write_same});
    return out;
  }();
  return all;
}

}  // namespace troupe
