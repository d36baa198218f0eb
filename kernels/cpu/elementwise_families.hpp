// Elementwise ops by name, grouped by kind: each has its own kernels and is also a step of FusedElementwise.
#pragma once

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {

// Each function calls fn(name, op) for its ops. Unary, any real type:
template <class Fn>
void for_each_real_unary(Fn fn) {
  fn("Neg", NegOp{});
  fn("Abs", AbsOp{});
  fn("Sign", SignOp{});
  fn("Square", SquareOp{});
  fn("Relu", ReluOp{});
}

// Unary, floating types.
template <class Fn>
void for_each_float_unary(Fn fn) {
  fn("Exp", ExpOp<VectorMath>{});
  fn("Log", LogOp<VectorMath>{});
  fn("Log1p", Log1pOp<VectorMath>{});
  fn("Sqrt", SqrtOp{});
  fn("Rsqrt", RsqrtOp<VectorMath>{});
  fn("Tanh", TanhOp<VectorMath>{});
  fn("Sigmoid", SigmoidOp<VectorMath>{});
  fn("Softplus", SoftplusOp<VectorMath>{});
  fn("Floor", FloorOp{});
  fn("Erf", ErfOp<VectorMath>{});
}

// Binary, any real type.
template <class Fn>
void for_each_arithmetic(Fn fn) {
  fn("Add", AddOp{});
  fn("Sub", SubOp{});
  fn("Mul", MulOp{});
  fn("Maximum", MaximumOp{});
  fn("Minimum", MinimumOp{});
  fn("SquaredDifference", SquaredDifferenceOp{});
}

// Binary with bool result: first any data type, then any real type.
template <class Fn>
void for_each_equality(Fn fn) {
  fn("Equal", EqualOp{});
  fn("NotEqual", NotEqualOp{});
}
template <class Fn>
void for_each_order(Fn fn) {
  fn("Less", LessOp{});
  fn("LessEqual", LessEqualOp{});
  fn("Greater", GreaterOp{});
  fn("GreaterEqual", GreaterEqualOp{});
}

// Gradient and activation result, floating types.
template <class Fn>
void for_each_float_gradient(Fn fn) {
  fn("SigmoidGrad", SigmoidGradOp{});
  fn("TanhGrad", TanhGradOp{});
}

}  // namespace troupe
