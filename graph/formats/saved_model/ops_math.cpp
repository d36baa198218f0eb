// TensorFlow's elementwise ops.
#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

template <Output (*build)(Output, Name)>
void tf_unary(TfNode& node) {
  node.set(build(node.in(0), {}));
}
template <Output (*build)(Output, Output, Name)>
void tf_binary(TfNode& node) {
  node.set(build(node.in(0), node.in(1), {}));
}

void tf_identity(TfNode& node) { node.set_value(node.value(0)); }
void tf_identities(TfNode& node) { node.set_all(node.in(0, node.num_inputs())); }
void tf_add(TfNode& node) {
  const Output a = node.in(0), b = node.in(1);
  node.set(a.dtype() == DType::string ? string_join({a, b}) : add(a, b));
}
void tf_add_n(TfNode& node) { node.set(add_n(node.in(0, node.num_inputs()))); }
void tf_relu(TfNode& node) { node.set(relu(node.in(0))); }
void tf_leaky_relu(TfNode& node) { node.set(leaky_relu(node.in(0), node.real("alpha", 0.2))); }
void tf_elu(TfNode& node) { node.set(elu(node.in(0))); }
void tf_selu(TfNode& node) { node.set(selu(node.in(0))); }
void tf_cast(TfNode& node) { node.set(cast(node.in(0), node.dtype("DstT"))); }
void tf_is_inf(TfNode& node) { node.set(is_inf(node.in(0))); }
void tf_clip(TfNode& node) { node.set(clip(node.in(0), node.in(1), node.in(2))); }

// a / b, and 0 where b is 0.
void tf_div_no_nan(TfNode& node) {
  const Output a = node.in(0), b = node.in(1), none = equal(b, zeros_like(b));
  const Output quotient = div(a, select(none, ones_like(b), b));
  node.set(select(none, zeros_like(quotient), quotient));
}
void tf_mul_no_nan(TfNode& node) {
  const Output a = node.in(0), b = node.in(1), product = mul(a, b);
  node.set(select(equal(b, zeros_like(b)), zeros_like(product), product));
}

void tf_select_v2(TfNode& node) { node.set(select(node.in(0), node.in(1), node.in(2))); }
// A condition of one dimension chooses rows.
void tf_select(TfNode& node) {
  Output cond = node.in(0);
  const Output a = node.in(1);
  if (cond.shape().has_rank() && cond.shape().rank() == 1) {
    if (!a.shape().has_rank()) fail(Code::unimplemented, "rows of a tensor of unknown rank are chosen");
    for (int d = 1; d < a.shape().rank(); ++d) cond = expand_dims(cond, -1);
  }
  node.set(select(cond, a, node.in(2)));
}

constexpr TfOp kTfMathOps[] = {
    {"Abs", tf_unary<abs>},
    {"Acos", tf_unary<acos>},
    {"Acosh", tf_unary<acosh>},
    {"Add", tf_add},
    {"AddN", tf_add_n},
    {"AddV2", tf_add},
    {"Asin", tf_unary<asin>},
    {"Asinh", tf_unary<asinh>},
    {"Atan", tf_unary<atan>},
    {"Atan2", tf_binary<atan2>},
    {"Atanh", tf_unary<atanh>},
    {"BitwiseAnd", tf_binary<bitwise_and>},
    {"BitwiseOr", tf_binary<bitwise_or>},
    {"BitwiseXor", tf_binary<bitwise_xor>},
    {"Cast", tf_cast},
    {"Ceil", tf_unary<ceil>},
    {"CheckNumerics", tf_identity},
    {"ClipByValue", tf_clip},
    {"Cos", tf_unary<cos>},
    {"Cosh", tf_unary<cosh>},
    {"Digamma", tf_unary<digamma>},
    {"DivNoNan", tf_div_no_nan},
    {"Elu", tf_elu},
    {"EnsureShape", tf_identity},
    {"Equal", tf_binary<equal>},
    {"Erf", tf_unary<erf>},
    {"Erfc", tf_unary<erfc>},
    {"Exp", tf_unary<exp>},
    {"Expm1", tf_unary<expm1>},
    {"Floor", tf_unary<floor>},
    {"FloorDiv", tf_binary<floor_div>},
    {"FloorMod", tf_binary<floor_mod>},
    {"Greater", tf_binary<greater>},
    {"GreaterEqual", tf_binary<greater_equal>},
    {"Identity", tf_identity},
    {"IdentityN", tf_identities},
    {"Inv", tf_unary<reciprocal>},
    {"Invert", tf_unary<bitwise_not>},
    {"IsFinite", tf_unary<is_finite>},
    {"IsInf", tf_is_inf},
    {"IsNan", tf_unary<is_nan>},
    {"LeakyRelu", tf_leaky_relu},
    {"LeftShift", tf_binary<left_shift>},
    {"Less", tf_binary<less>},
    {"LessEqual", tf_binary<less_equal>},
    {"Lgamma", tf_unary<lgamma>},
    {"Log", tf_unary<log>},
    {"Log1p", tf_unary<log1p>},
    {"LogicalAnd", tf_binary<logical_and>},
    {"LogicalNot", tf_unary<logical_not>},
    {"LogicalOr", tf_binary<logical_or>},
    {"Maximum", tf_binary<maximum>},
    {"Minimum", tf_binary<minimum>},
    {"Mul", tf_binary<mul>},
    {"MulNoNan", tf_mul_no_nan},
    {"Neg", tf_unary<neg>},
    {"NotEqual", tf_binary<not_equal>},
    {"OnesLike", tf_unary<ones_like>},
    {"Pow", tf_binary<pow>},
    {"PreventGradient", tf_identity},
    {"RealDiv", tf_binary<div>},
    {"Reciprocal", tf_unary<reciprocal>},
    {"Relu", tf_relu},
    {"Relu6", tf_unary<relu6>},
    {"Rint", tf_unary<round>},
    {"RightShift", tf_binary<right_shift>},
    {"Round", tf_unary<round>},
    {"Rsqrt", tf_unary<rsqrt>},
    {"Select", tf_select},
    {"SelectV2", tf_select_v2},
    {"Selu", tf_selu},
    {"Sigmoid", tf_unary<sigmoid>},
    {"Sign", tf_unary<sign>},
    {"Sin", tf_unary<sin>},
    {"Sinh", tf_unary<sinh>},
    {"Snapshot", tf_identity},
    {"Softplus", tf_unary<softplus>},
    {"Softsign", tf_unary<softsign>},
    {"Sqrt", tf_unary<sqrt>},
    {"Square", tf_unary<square>},
    {"SquaredDifference", tf_binary<squared_difference>},
    {"StopGradient", tf_unary<stop_gradient>},
    {"Sub", tf_binary<sub>},
    {"Tan", tf_unary<tan>},
    {"Tanh", tf_unary<tanh>},
    {"TruncateDiv", tf_binary<div>},
    {"TruncateMod", tf_binary<truncate_mod>},
    {"Xlogy", tf_binary<xlogy>},
    {"ZerosLike", tf_unary<zeros_like>},
};

}  // namespace

std::span<const TfOp> tensorflow_math_ops() { return kTfMathOps; }

}  // namespace troupe
