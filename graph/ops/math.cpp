// Elementwise mathematics with NumPy broadcasting, comparisons, and the ops that undo or repeat a broadcast.
#include <troupe/graph/elementwise_program.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/values.hpp>

namespace troupe {
namespace {

const std::vector<DType> kPowTypes = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};

constexpr std::int64_t kMaxPolygamma = 100;  // 101! is about 1e160

// Checks that a tensor of shape `small` can be broadcast to one of shape `large`.
void check_broadcast_to(const Shape& small, const Shape& large) {
  if (!small.has_rank() || !large.has_rank()) return;
  bool fits = small.rank() <= large.rank();
  for (int i = 1; fits && i <= small.rank(); ++i) {
    const std::int64_t from = small.dim(-i);
    const std::int64_t to = large.dim(-i);
    fits = from == to || from == 1 || from == kUnknown || to == kUnknown;
  }
  if (!fits) invalid_argument("{} cannot be broadcast to {}", small.to_string(), large.to_string());
}

void fused_shape(ShapeContext& c) {
  const auto steps = parse_elementwise(c.attributes().get<std::vector<std::string>>("program"),
                                       c.attributes().get<std::vector<DType>>("Tin"));
  if (steps.back().dtype != c.attributes().dtype("T"))
    invalid_argument("the program computes {}, not {}", name(steps.back().dtype), name(c.attributes().dtype("T")));
  shapes::broadcast_inputs(c);
}

void sum_to_like_shape(ShapeContext& c) {
  check_broadcast_to(c.input(1), c.input(0));
  c.set_output(0, c.input(1));
}

void broadcast_like_shape(ShapeContext& c) {
  check_broadcast_to(c.input(0), c.input(1));
  c.set_output(0, c.input(1));
}

void shape_shape(ShapeContext& c) {
  const Shape& x = c.input(0);
  c.set_output(0, x.has_rank() ? Shape{x.rank()} : Shape{kUnknown});
}

Op differentiable(std::string name) { return Op(name).gradient(math_gradient(name)); }

Op binary(std::string name, std::vector<DType> types) {
  return differentiable(std::move(name))
      .input("a", "T")
      .input("b", "T")
      .output("y", "T")
      .type("T", std::move(types))
      .shape(shapes::broadcast_inputs);
}

Op compare(std::string name, std::vector<DType> types) {
  return Op(std::move(name))
      .input("a", "T")
      .input("b", "T")
      .output("y", DType::boolean)
      .type("T", std::move(types))
      .shape(shapes::broadcast_inputs)
      .no_gradient();
}

Op logical(std::string name) {
  return Op(std::move(name))
      .input("a", "T")
      .input("b", "T")
      .output("y", "T")
      .type("T", {DType::boolean})
      .shape(shapes::broadcast_inputs)
      .no_gradient();
}

Op unary(std::string name, std::vector<DType> types) {
  return differentiable(std::move(name))
      .input("x", "T")
      .output("y", "T")
      .type("T", std::move(types))
      .shape(shapes::same_as(0));
}

// The gradient of an activation from that of its output: its inputs have the same shape.
Op activation_grad(std::string name, std::string kept, std::vector<DType> types) {
  return differentiable(std::move(name))
      .input("dy", "T")
      .input(std::move(kept), "T")
      .output("dx", "T")
      .type("T", std::move(types))
      .shape(shapes::same_shapes);
}

using Integer = std::optional<std::int64_t>;
Integer known_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? Integer() : sum;
}
Integer known_difference(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  return __builtin_sub_overflow(a, b, &difference) ? Integer() : difference;
}
Integer known_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? Integer() : product;
}
Integer known_quotient(std::int64_t a, std::int64_t b) { return b == 0 || b == -1 ? Integer() : a / b; }
// Quotient rounded down and the remainder of the divisor's sign.
Integer known_floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return {};
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
Integer known_floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return {};
  return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
}
Integer known_maximum(std::int64_t a, std::int64_t b) { return std::max(a, b); }
Integer known_minimum(std::int64_t a, std::int64_t b) { return std::min(a, b); }

void register_arithmetic(OpRegistry& ops) {
  ops.add(binary("Add", kRealTypes).value(values::binary(known_sum)).precision(PrecisionClass::follower));
  ops.add(binary("Sub", kRealTypes).value(values::binary(known_difference)));
  ops.add(binary("Mul", kRealTypes).value(values::binary(known_product)));
  ops.add(binary("Div", kRealTypes).value(values::binary(known_quotient)));
  ops.add(binary("Maximum", kRealTypes).value(values::binary(known_maximum)));
  ops.add(binary("Minimum", kRealTypes).value(values::binary(known_minimum)));
  ops.add(binary("Pow", kPowTypes));
  ops.add(binary("SquaredDifference", kRealTypes));
  ops.add(binary("FloorDiv", kRealTypes).value(values::binary(known_floor_div)).no_gradient());
  ops.add(binary("FloorMod", kRealTypes).value(values::binary(known_floor_mod)));
  ops.add(binary("TruncateMod", kRealTypes));
  ops.add(binary("Atan2", kFloatTypes));
  ops.add(binary("Xlogy", kFloatTypes));
  ops.add(unary("Neg", kRealTypes));
  ops.add(unary("Abs", kRealTypes));
  ops.add(unary("Sign", kRealTypes).no_gradient());
  ops.add(unary("Square", kRealTypes));
  ops.add(unary("Exp", kFloatTypes));
  ops.add(unary("Log", kFloatTypes));
  ops.add(unary("Log1p", kFloatTypes));
  ops.add(unary("Sqrt", kFloatTypes));
  ops.add(unary("Rsqrt", kFloatTypes));
  ops.add(unary("Tanh", kFloatTypes));
  ops.add(unary("Sigmoid", kFloatTypes));
  ops.add(unary("Softplus", kFloatTypes));
  for (const char* name : {"Floor", "Ceil", "Round"}) ops.add(unary(name, kFloatTypes).no_gradient());
  ops.add(unary("Polygamma", kFloatTypes).attr("n", AttrType::integer).shape([](ShapeContext& c) {
    shapes::bounded(c.attributes(), "n", 1, kMaxPolygamma);
    c.set_output(0, c.input(0));
  }));
  for (const char* name : {"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
                           "Expm1", "Erfc", "Lgamma", "Digamma", "Softsign"})
    ops.add(unary(name, kFloatTypes));
  ops.add(unary("Erf", kFloatTypes));
  ops.add(unary("Relu", kRealTypes).precision(PrecisionClass::follower));
  ops.add(unary("LeakyRelu", kFloatTypes).attr("alpha", 0.2).precision(PrecisionClass::follower));
  ops.add(activation_grad("ReluGrad", "y", kRealTypes).precision(PrecisionClass::follower));
  ops.add(activation_grad("LeakyReluGrad", "x", kFloatTypes).attr("alpha", 0.2).precision(PrecisionClass::follower));
  ops.add(activation_grad("SigmoidGrad", "y", kFloatTypes));
  ops.add(activation_grad("TanhGrad", "y", kFloatTypes));
}

void register_bits(OpRegistry& ops) {
  for (const char* name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"})
    ops.add(binary(name, kIntegerTypes).no_gradient());
  ops.add(unary("BitwiseNot", kIntegerTypes).no_gradient());
}

void register_logic(OpRegistry& ops) {
  ops.add(compare("Equal", kTensorTypes));
  ops.add(compare("NotEqual", kTensorTypes));
  for (const char* name : {"Less", "LessEqual", "Greater", "GreaterEqual"}) ops.add(compare(name, kRealTypes));
  ops.add(logical("LogicalAnd"));
  ops.add(logical("LogicalOr"));
  ops.add(unary("LogicalNot", {DType::boolean}).no_gradient());
  ops.add(differentiable("Select")
              .input("cond", DType::boolean)
              .input("a", "T")
              .input("b", "T")
              .output("y", "T")
              .type("T", kTensorTypes)
              .shape(shapes::broadcast_inputs));
}

void register_text(OpRegistry& ops) {
  ops.add(Op("AsString")
              .input("x", "T")
              .output("y", DType::string)
              .type("T", kDataTypes)
              .shape(shapes::same_as(0))
              .no_gradient());
  ops.add(Op("StringToNumber")
              .input("x", DType::string)
              .output("y", "T")
              .type("T", kDataTypes)
              .shape(shapes::same_as(0))
              .no_gradient());
}

}  // namespace

void register_math_ops(OpRegistry& ops) {
  register_arithmetic(ops);
  register_logic(ops);
  register_bits(ops);
  register_text(ops);
  ops.add(differentiable("AddN")
              .input_list("xs", "T", "N")
              .output("sum", "T")
              .type("T", kRealTypes)
              .shape(shapes::same_shapes)
              .precision(PrecisionClass::follower));
  // Made by a pass after differentiation, so it needs no gradient.
  ops.add(Op("FusedElementwise")
              .input_types("inputs", "Tin")
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("program", AttrType::strings)
              .shape(fused_shape));
  ops.add(differentiable("SumToLike")
              .input("x", "T")
              .input_shape("like", "T")
              .output("y", "T")
              .type("T", kRealTypes)
              .shape(sum_to_like_shape));
  ops.add(differentiable("BroadcastLike")
              .input("x", "T")
              .input_shape("like", "T2")
              .output("y", "T")
              .type("T")
              .type("T2")
              .shape(broadcast_like_shape));
  ops.add(unary("ZerosLike", {}).no_gradient());
  ops.add(unary("OnesLike", kDataTypes).no_gradient());
  ops.add(Op("Shape")
              .input("x", "T")
              .output("shape", DType::i64)
              .type("T")
              .shape(shape_shape)
              .value(values::shape_of)
              .no_gradient());
  ops.add(Op("Size")
              .input("x", "T")
              .output("size", DType::i64)
              .type("T")
              .shape(shapes::scalar())
              .value(values::size_of)
              .no_gradient());
}

}  // namespace troupe
