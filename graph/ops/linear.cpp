// Matrix product and bias.
#include <limits>

#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/windows.hpp>

namespace troupe {
namespace {

std::string operand(const Shape& shape, bool transposed) {
  return shape.to_string() + (transposed ? " transposed" : "");
}

void check_product_factor(const Shape& shape, bool transposed, std::string_view name) {
  shapes::at_least_rank(shape, 1, name);
  if (shape.rank() == 1 && transposed)
    invalid_argument("'{}' is a vector {}, which has no transpose", name, shape.to_string());
}

// As kernels/common/matmul_shape.hpp, for shapes that may be partly unknown.
Shape product_shape(const Shape& a, const Shape& b, bool ta, bool tb) {
  check_product_factor(a, ta, "a");
  check_product_factor(b, tb, "b");
  if (!a.has_rank() || !b.has_rank()) return Shape::unknown_rank();
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const std::int64_t left = a[ta ? -2 : -1];
  const std::int64_t right = b[column || tb ? -1 : -2];
  if (left != kUnknown && right != kUnknown && left != right)
    invalid_argument("inner dimensions differ: {} x {}", operand(a, ta), operand(b, tb));
  Shape out = broadcast(row ? Shape{} : a.sub(0, a.rank() - 2), column ? Shape{} : b.sub(0, b.rank() - 2));
  if (!row) out = out.with_appended(a[ta ? -1 : -2]);
  if (!column) out = out.with_appended(b[tb ? -2 : -1]);
  return out;
}

Shape product_shape(const ShapeContext& c) {
  return product_shape(c.input(0), c.input(1), c.attributes().boolean("transpose_a"),
                       c.attributes().boolean("transpose_b"));
}

void matmul_shape(ShapeContext& c) { c.set_output(0, product_shape(c)); }
void fused_matmul_shape(ShapeContext& c) { shapes::add_bias(c, product_shape(c)); }

void matmul_integer_shape(ShapeContext& c) { c.set_output(0, product_shape(c.input(0), c.input(1), false, false)); }
void qlinear_matmul_shape(ShapeContext& c) { c.set_output(0, product_shape(c.input(0), c.input(3), false, false)); }
// a and a matrix of weights (kernels/cpu/quantized.hpp).
void quantized_matmul_shape(ShapeContext& c) {
  const Shape a = shapes::at_least_rank(c.input(0), 1, "a"), b = shapes::with_rank(c.input(1), 2, "b");
  const Shape y = product_shape(a, b, false, false);
  shapes::check_quantized(c, 3, y);
  shapes::add_bias(c, y);
}
// The axis of channels, by attribute "data_format".
int bias_axis(const ShapeContext& c) { return window_options(c.attributes()).channels_first() ? 1 : -1; }

void bias_add_shape(ShapeContext& c) {
  const int axis = bias_axis(c);
  Shape x = shapes::at_least_rank(c.input(0), axis == 1 ? 2 : 1, "x");
  const Shape bias = shapes::with_rank(c.input(1), 1, "bias");
  if (x.has_rank())
    x.set_dim(axis, shapes::merge_dim(x[axis], bias[0],
                                      axis == 1 ? "the channels of 'x' and the size of 'bias'"
                                                : "the last dimension of 'x' and the size of 'bias'"));
  c.set_output(0, x);
}

void bias_add_grad_shape(ShapeContext& c) {
  const int axis = bias_axis(c);
  const Shape& dy = shapes::at_least_rank(c.input(0), axis == 1 ? 2 : 1, "dy");
  c.set_output(0, Shape{dy.has_rank() ? dy[axis] : kUnknown});
}

// A factor of a product, or its gradient, as matrices: y = op(a) op(b), where op may transpose.
struct ProductTerms {
  Output a, b, g;
  bool ta = false, tb = false;
};
// da = g op(b)^T and db = op(a)^T g, transposed where a or b is: transposes are never copied.
Output gradient_of_a(const ProductTerms& p) {
  return p.ta ? matmul(p.b, p.g, {.transpose_a = p.tb, .transpose_b = true}) : matmul(p.g, p.b, {.transpose_b = !p.tb});
}
Output gradient_of_b(const ProductTerms& p) {
  return p.tb ? matmul(p.g, p.a, {.transpose_a = true, .transpose_b = p.ta}) : matmul(p.a, p.g, {.transpose_a = !p.ta});
}

// x [..., width] as one matrix. `width` is dimension `axis` of the matrix `like`.
Output as_rows(Output x, Output like, int axis) {
  const Shape& shape = x.shape();
  if (shape.fully_known()) return reshape(x, Shape{shape.sub(0, shape.rank() - 1).num_elements(), shape[-1]});
  if (like.shape()[axis] != kUnknown) return reshape(x, Shape{kUnknown, like.shape()[axis]});
  const Output dims = shape_of(like);
  const Output width = slice(dims, Integers{axis}, Integers{1});
  const Output any = constant(*x.graph, {std::int64_t{kUnknown}});
  return reshape(x, concat({any, width}, 0));
}

// b is a matrix: rows of all of a's matrices are rows of one, so that db is one product too.
Output gradient_of_matrix(ProductTerms p) {
  if (p.a.shape().rank() == 2) return gradient_of_b(p);
  if (p.ta) return unbroadcast(gradient_of_b(p), p.b);
  p.a = as_rows(p.a, p.b, p.tb ? 1 : 0);
  p.g = as_rows(p.g, p.b, p.tb ? 0 : 1);
  return gradient_of_b(p);
}

// Shapes that a graph computes: `dims` with a 1 `behind` its last dimension, or before that, if x is a vector.
Output with_one(Output dims, Output x, bool behind) {
  const Output two = constant<std::int64_t>(*x.graph, 2);
  const Output missing = two - rank_of(x);  // 1 for a vector
  const Output zero = constant<std::int64_t>(*x.graph, 0);
  const Output count = reshape(maximum(missing, zero), Shape{1});
  const Output ones = fill(count, constant<std::int64_t>(*x.graph, 1));
  if (behind) return concat({dims, ones}, 0);
  const Output first = strided_slice(dims, Integers{0}, Integers{-1});
  const Output last = strided_slice(dims, Integers{-1}, Integers{std::numeric_limits<std::int64_t>::max()});
  return concat({first, ones, last}, 0);
}

// Of operands whose number of dimensions is not known: vectors become matrices when the graph runs.
void gradient_of_unknown_ranks(GradientContext& c, ProductTerms p) {
  const Output a = p.a, b = p.b;
  const Output dims = with_one(shape_of(p.g), b, true);
  p.g = reshape(p.g, with_one(dims, a, false));
  p.a = reshape(a, with_one(shape_of(a), a, false));
  p.b = reshape(b, with_one(shape_of(b), b, true));
  if (c.needs(0)) c.set(0, reshape_like(sum_to_like(gradient_of_a(p), p.a), a));
  if (c.needs(1)) c.set(1, reshape_like(sum_to_like(gradient_of_b(p), p.b), b));
}

// Gradients are summed over the dimensions along which an operand was broadcast.
void batch_gradient(GradientContext& c, ProductTerms p) {
  if (!p.a.shape().has_rank() || !p.b.shape().has_rank()) return gradient_of_unknown_ranks(c, p);
  const Output a = p.a;
  const bool row = a.shape().rank() == 1;
  if (row) p.a = expand_dims(a, 0);
  if (row) p.g = expand_dims(p.g, -2);
  if (c.needs(0)) c.set(0, unbroadcast(gradient_of_a(p), a));
  if (c.needs(1)) c.set(1, unbroadcast(gradient_of_b(p), p.b));
}

void matmul_gradient(GradientContext& c) {
  ProductTerms p{.a = c.input(0),
                 .b = c.input(1),
                 .g = c.grad(),
                 .ta = c.attributes().boolean("transpose_a"),
                 .tb = c.attributes().boolean("transpose_b")};
  const bool column = p.b.shape().rank() == 1;
  if (column) p.b = expand_dims(p.b, -1);
  if (column) p.g = expand_dims(p.g, -1);
  if (p.b.shape().rank() != 2) return batch_gradient(c, p);
  if (c.needs(0)) c.set(0, gradient_of_a(p));
  if (!c.needs(1)) return;
  const Output db = gradient_of_matrix(p);
  c.set(1, column ? reshape_like(db, c.input(1)) : db);
}

void bias_add_gradient(GradientContext& c) {
  c.set(0, c.grad());
  if (c.needs(1)) c.set(1, add_op("BiasAddGrad", {c.grad()}, {{"data_format", c.attributes().string("data_format")}}));
}
void bias_add_grad_gradient(GradientContext& c) {
  if (c.attributes().string("data_format") == to_string(DataFormat::channels_last))
    return c.set(0, broadcast_like(c.grad(), c.input(0)));
  const Output zeros = zeros_like(c.input(0));
  c.set(0, bias_add(zeros, c.grad(), DataFormat::channels_first));
}

}  // namespace

void register_linear_ops(OpRegistry& ops) {
  ops.add(Op("MatMul")
              .input("a", "T")
              .input("b", "T")
              .output("product", "T")
              .type("T", kRealTypes)
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
  // gelu(a b + bias), with erf; made by gelu_inside.
  ops.add(Op("GeluMatMul")
              .input("a", "T")
              .input("b", "T")
              .input("bias", "T")
              .output("y", "T")
              .type("T", {DType::f32})
              .attr("transpose_a", false)
              .attr("transpose_b", false)
              .attr("activation", std::string("none"))  // of FusedMatMul; there is no other
              .shape(fused_matmul_shape));
  const std::vector<DType> bytes{DType::i8, DType::u8};
  ops.add(Op("MatMulInteger")
              .input("a", "T1")
              .input("b", "T2")
              .input("a_zero_point", "T1")
              .input("b_zero_point", "T2")
              .output("product", DType::i32)
              .type("T1", bytes)
              .type("T2", bytes)
              .shape(matmul_integer_shape)
              .no_gradient());
  ops.add(Op("QLinearMatMul")
              .input("a", "T1")
              .input("a_scale", DType::f32)
              .input("a_zero_point", "T1")
              .input("b", "T2")
              .input("b_scale", DType::f32)
              .input("b_zero_point", "T2")
              .input("y_scale", DType::f32)
              .input("y_zero_point", "T3")
              .output("y", "T3")
              .type("T1", bytes)
              .type("T2", bytes)
              .type("T3", bytes)
              .shape(qlinear_matmul_shape)
              .no_gradient());
  Op quantized("QuantizedMatMul");
  quantized.input("a", "Q").input("b", DType::i8).input("bias", DType::f32).input("b_scale", DType::f32);
  quantized.output("y", "Y").type("Q", bytes).type("Y", {DType::f32, DType::i8, DType::u8});
  quantized.attr("a_scale", AttrType::real).attr("a_zero", std::int64_t{0});
  quantized.attr("y_scale", 1.0).attr("y_zero", std::int64_t{0});
  ops.add(quantized.attr("activation", std::string("none")).shape(quantized_matmul_shape).no_gradient());
  // a f32, quantised to u8 in each run by its least and greatest element.
  Op dynamic("DynamicQuantizedMatMul");
  dynamic.type("T", {DType::f32}).input("a", "T").input("b", DType::i8).input("bias", "T").input("b_scale", "T");
  dynamic.output("y", "T").attr("activation", std::string("none"));
  ops.add(dynamic.shape(quantized_matmul_shape).no_gradient());
  ops.add(Op("BiasAdd")
              .input("x", "T")
              .input("bias", "T")
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("data_format", to_string(DataFormat::channels_last))
              .shape(bias_add_shape)
              .gradient(bias_add_gradient)
              .precision(PrecisionClass::follower));
  ops.add(Op("BiasAddGrad")
              .input("dy", "T")
              .output("dbias", "T")
              .type("T", kFloatTypes)
              .attr("data_format", to_string(DataFormat::channels_last))
              .shape(bias_add_grad_shape)
              .gradient(bias_add_grad_gradient));
}

}  // namespace troupe
