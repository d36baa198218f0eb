// ONNX's elementwise arithmetic, comparisons, bits and conversions.
#include <algorithm>
#include <cctype>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

template <Output (*build)(Output, Name)>
void unary(OnnxNode& node) {
  node.set(build(node.in(0), {}));
}

// Opsets below 7 broadcast where the attribute "broadcast" says so: b begins at dimension "axis" of a.
Output broadcast_operand(const OnnxNode& node) {
  const Output a = node.in(0), b = node.in(1);
  if (node.opset() >= 7 || node.integer("broadcast", 0) == 0 || !node.has_attr("axis")) return b;
  const Shape &large = a.shape(), &small = b.shape();
  if (!large.has_rank() || !small.has_rank())
    fail(Code::unimplemented, "broadcasting along attribute 'axis' needs known ranks");
  const std::int64_t axis = node.integer("axis");
  Output out = b;
  for (std::int64_t d = (axis < 0 ? axis + large.rank() : axis) + small.rank(); d < large.rank(); ++d)
    out = expand_dims(out, -1);
  return out;
}

template <Output (*build)(Output, Output, Name)>
void binary(OnnxNode& node) {
  node.set(build(node.in(0), broadcast_operand(node), {}));
}

// A vector of weights after a product is a bias.
void add_node(OnnxNode& node) {
  const Output a = node.in(0), b = node.in(1);
  const Shape &x = a.shape(), &bias = b.shape();
  const std::string& weights = b.source().op->name;
  const bool after_product = a.source().op->name == "MatMul" && (weights == "Const" || weights == "ReadVariable") &&
                             is_floating(a.dtype()) && node.opset() >= 7;
  if (after_product && x.has_rank() && bias.has_rank() && bias.rank() == 1 && x[-1] == bias[0] && bias[0] != kUnknown)
    return node.set(bias_add(a, b));
  binary<add>(node);
}

void mul_node(OnnxNode& node) {
  const Output a = node.in(0), b = broadcast_operand(node);
  node.set(a == b ? square(a) : mul(a, b));
}

// Opset 1 to 5 name the dtype.
DType named_dtype(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"FLOAT", DType::f32},    {"DOUBLE", DType::f64}, {"FLOAT16", DType::f16}, {"INT8", DType::i8},
      {"UINT8", DType::u8},     {"INT16", DType::i16},  {"UINT16", DType::u16},  {"INT32", DType::i32},
      {"UINT32", DType::u32},   {"INT64", DType::i64},  {"UINT64", DType::u64},  {"BOOL", DType::boolean},
      {"STRING", DType::string}};
  for (const auto& [known, dtype] : kNames)
    if (known == name) return dtype;
  fail(Code::unimplemented, "attribute 'to' is '{}', which is no dtype", name);
}

void set_cast(OnnxNode& node, DType dtype) {
  const Output x = node.in(0);
  node.set(x.dtype() == dtype ? identity(x) : cast(x, dtype));
}
void cast_node(OnnxNode& node) { set_cast(node, node.opset() < 6 ? named_dtype(node.string("to")) : node.dtype("to")); }
void cast_like_node(OnnxNode& node) { set_cast(node, node.in(1).dtype()); }

// The result has the dtype of the base, whatever that of the exponent.
void pow_node(OnnxNode& node) {
  const Output base = node.in(0), exponent = broadcast_operand(node);
  const DType dtype = base.dtype();
  if (is_floating(dtype)) return node.set(pow(base, cast(exponent, dtype)));
  if (is_floating(exponent.dtype())) {
    const Output wide = cast(base, DType::f64);
    return node.set(cast(pow(wide, cast(exponent, DType::f64)), dtype));
  }
  if (dtype == DType::i32 || dtype == DType::i64) return node.set(pow(base, cast(exponent, dtype)));
  const Output wide = cast(base, DType::i64);
  node.set(cast(pow(wide, cast(exponent, DType::i64)), dtype));
}

void mod_node(OnnxNode& node) {
  const bool truncates = node.integer("fmod", 0) != 0;
  if (!truncates && is_floating(node.in(0).dtype()))
    invalid_argument("attribute 'fmod' must be 1 for {}", name(node.in(0).dtype()));
  node.set(truncates ? truncate_mod(node.in(0), node.in(1)) : floor_mod(node.in(0), node.in(1)));
}

void bit_shift_node(OnnxNode& node) {
  const std::string direction = node.string("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    invalid_argument("attribute 'direction' is '{}', not LEFT or RIGHT", direction);
  node.set(direction == "LEFT" ? left_shift(node.in(0), node.in(1)) : right_shift(node.in(0), node.in(1)));
}

void is_inf_node(OnnxNode& node) {
  node.set(is_inf(node.in(0), {.negative = node.integer("detect_negative", 1) != 0,
                               .positive = node.integer("detect_positive", 1) != 0}));
}

void where_node(OnnxNode& node) { node.set(select(node.in(0), node.in(1), node.in(2))); }

// Any number of operands, from left to right.
template <Output (*build)(Output, Output, Name)>
Output folded(const OnnxNode& node) {
  const Outputs xs = node.all_inputs();
  if (xs.empty()) invalid_argument("needs at least one input");
  if (xs.size() == 1) return identity(xs[0]);
  Output out = xs[0];
  for (std::size_t i = 1; i < xs.size(); ++i) out = build(out, xs[i], {});
  return out;
}
template <Output (*build)(Output, Output, Name)>
void variadic(OnnxNode& node) {
  node.set(folded<build>(node));
}
void mean_node(OnnxNode& node) { node.set(folded<add>(node) / node.num_inputs()); }

// ONNX has it of integers, too.
void erf_node(OnnxNode& node) {
  const Output x = node.in(0);
  node.set(is_floating(x.dtype()) ? erf(x) : cast(erf(cast(x, DType::f64)), x.dtype()));
}

constexpr OnnxOp kMathOps[] = {
    {"Abs", unary<abs>, OnnxImages::elementwise},
    {"Acos", unary<acos>, OnnxImages::elementwise},
    {"Acosh", unary<acosh>, OnnxImages::elementwise},
    {"Add", add_node, OnnxImages::elementwise},
    {"And", binary<logical_and>, OnnxImages::elementwise},
    {"Asin", unary<asin>, OnnxImages::elementwise},
    {"Asinh", unary<asinh>, OnnxImages::elementwise},
    {"Atan", unary<atan>, OnnxImages::elementwise},
    {"Atanh", unary<atanh>, OnnxImages::elementwise},
    {"BitShift", bit_shift_node},
    {"BitwiseAnd", binary<bitwise_and>},
    {"BitwiseNot", unary<bitwise_not>},
    {"BitwiseOr", binary<bitwise_or>},
    {"BitwiseXor", binary<bitwise_xor>},
    {"Cast", cast_node, OnnxImages::elementwise},
    {"CastLike", cast_like_node},
    {"Ceil", unary<ceil>, OnnxImages::elementwise},
    {"Cos", unary<cos>, OnnxImages::elementwise},
    {"Cosh", unary<cosh>, OnnxImages::elementwise},
    {"Div", binary<div>, OnnxImages::elementwise},
    {"Equal", binary<equal>, OnnxImages::elementwise},
    {"Erf", erf_node, OnnxImages::elementwise},
    {"Exp", unary<exp>, OnnxImages::elementwise},
    {"Floor", unary<floor>, OnnxImages::elementwise},
    {"Greater", binary<greater>, OnnxImages::elementwise},
    {"GreaterOrEqual", binary<greater_equal>, OnnxImages::elementwise},
    {"IsInf", is_inf_node, OnnxImages::elementwise},
    {"IsNaN", unary<is_nan>, OnnxImages::elementwise},
    {"Less", binary<less>, OnnxImages::elementwise},
    {"LessOrEqual", binary<less_equal>, OnnxImages::elementwise},
    {"Log", unary<log>, OnnxImages::elementwise},
    {"Max", variadic<maximum>, OnnxImages::elementwise},
    {"Mean", mean_node, OnnxImages::elementwise},
    {"Min", variadic<minimum>, OnnxImages::elementwise},
    {"Mod", mod_node, OnnxImages::elementwise},
    {"Mul", mul_node, OnnxImages::elementwise},
    {"Neg", unary<neg>, OnnxImages::elementwise},
    {"Not", unary<logical_not>, OnnxImages::elementwise},
    {"Or", binary<logical_or>, OnnxImages::elementwise},
    {"Pow", pow_node, OnnxImages::elementwise},
    {"Reciprocal", unary<reciprocal>, OnnxImages::elementwise},
    {"Round", unary<round>, OnnxImages::elementwise},
    {"Sign", unary<sign>, OnnxImages::elementwise},
    {"Sin", unary<sin>, OnnxImages::elementwise},
    {"Sinh", unary<sinh>, OnnxImages::elementwise},
    {"Sqrt", unary<sqrt>, OnnxImages::elementwise},
    {"Sub", binary<sub>, OnnxImages::elementwise},
    {"Sum", variadic<add>, OnnxImages::elementwise},
    {"Tan", unary<tan>, OnnxImages::elementwise},
    {"Tanh", unary<tanh>, OnnxImages::elementwise},
    {"Where", where_node, OnnxImages::elementwise},
    {"Xor", binary<logical_xor>, OnnxImages::elementwise},
};

}  // namespace

std::span<const OnnxOp> onnx_math_ops() { return kMathOps; }

}  // namespace troupe
