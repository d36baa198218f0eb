// Matrix product and bias.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

std::string operand(const Shape& shape, bool transposed) {
  return shape.to_string() + (transposed ? " transposed" : "");
}

Shape product_shape(const ShapeContext& c) {
  const bool ta = c.attributes().boolean("transpose_a");
  const bool tb = c.attributes().boolean("transpose_b");
  const Shape a = shapes::with_rank(c.input(0), 2, "a");
  const Shape b = shapes::with_rank(c.input(1), 2, "b");
  const std::int64_t left = a[ta ? 0 : 1];
  const std::int64_t right = b[tb ? 1 : 0];
  if (left != kUnknown && right != kUnknown && left != right)
    invalid_argument("inner dimensions differ: {} x {}", operand(a, ta), operand(b, tb));
  return Shape{a[ta ? 1 : 0], b[tb ? 0 : 1]};
}

void matmul_shape(ShapeContext& c) { c.set_output(0, product_shape(c)); }
void fused_matmul_shape(ShapeContext& c) { shapes::add_bias(c, product_shape(c)); }

void bias_add_shape(ShapeContext& c) {
  Shape x = shapes::at_least_rank(c.input(0), 1, "x");
  const Shape bias = shapes::with_rank(c.input(1), 1, "bias");
  if (x.has_rank())
    x.set_dim(-1, shapes::merge_dim(x[-1], bias[0], "the last dimension of 'x' and the size of 'bias'"));
  c.set_output(0, x);
}

void bias_add_grad_shape(ShapeContext& c) {
  const Shape& dy = shapes::at_least_rank(c.input(0), 1, "dy");
  c.set_output(0, Shape{dy.has_rank() ? dy[-1] : kUnknown});
}

// y = op(a) op(b), where op may transpose: da = g op(b)^T and db = op(a)^T g, transposed where a or b is.
void matmul_gradient(GradientContext& c) {
  const bool ta = c.attributes().boolean("transpose_a");
  const bool tb = c.attributes().boolean("transpose_b");
  const Output g = c.grad();
  const Output a = c.input(0);
  const Output b = c.input(1);
  if (c.needs(0))
    c.set(0, ta ? matmul(b, g, {.transpose_a = tb, .transpose_b = true}) : matmul(g, b, {.transpose_b = !tb}));
  if (c.needs(1))
    c.set(1, tb ? matmul(g, a, {.transpose_a = true, .transpose_b = ta}) : matmul(a, g, {.transpose_a = !ta}));
}

void bias_add_gradient(GradientContext& c) {
  c.set(0, c.grad());
  if (c.needs(1)) c.set(1, add_op("BiasAddGrad", {c.grad()}));
}
void bias_add_grad_gradient(GradientContext& c) { c.set(0, broadcast_like(c.grad(), c.input(0))); }

}  // namespace

void register_linear_ops(OpRegistry& ops) {
  ops.add(Op("MatMul")
              .input("a", "T")
              .input("b", "T")
              .output("product", "T")
              .type("T", kFloatTypes)
              .attr("transpose_a", false)
              .attr("transpose_b", false)
              .shape(matmul_shape)
              .gradient(matmul_gradient)
              .precision(PrecisionClass::narrow));
  // activation(a b + bias): made by the fusing pass of MatMul, BiasAdd and an activation. The pass runs after
  // differentiation, so no gradient is needed.
  ops.add(Op("FusedMatMul")
              .input("a", "T")
              .input("b", "T")
              .input("bias", "T")
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("transpose_a", false)
              .attr("transpose_b", false)
              .attr("activation", std::string("none"))
              .shape(fused_matmul_shape));
  ops.add(Op("BiasAdd")
              .input("x", "T")
              .input("bias", "T")
              .output("y", "T")
              .type("T", kFloatTypes)
              .shape(bias_add_shape)
              .gradient(bias_add_gradient)
              .precision(PrecisionClass::follower));
  ops.add(Op("BiasAddGrad")
              .input("dy", "T")
              .output("dbias", "T")
              .type("T", kFloatTypes)
              .shape(bias_add_grad_shape)
              .gradient(bias_add_grad_gradient));
}

}  // namespace troupe
