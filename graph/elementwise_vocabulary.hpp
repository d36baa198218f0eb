// The elementwise ops that kernels compute with one function of kernels/common/elementwise_ops.hpp, alone or as a step
// of FusedElementwise. A list calls X(NAME) for each of its ops, whose function is its name with `Op` behind it
// (`AddOp`). An op that is added here and there has its CPU and GPU kernels, works in place, and is fused.
#pragma once

// One operand, any real type.
#define TROUPE_REAL_UNARY_OPS(X) X(Neg) X(Abs) X(Sign) X(Square) X(Relu)

// One operand, floating types.
#define TROUPE_FLOAT_UNARY_OPS(X) X(Sqrt) X(Floor) X(Ceil) X(Round) X(Softsign)

// The same, with an elementary function: a template of `Math`.
#define TROUPE_MATH_UNARY_OPS(X) X(Exp) X(Log) X(Log1p) X(Rsqrt) X(Tanh) X(Sigmoid) X(Softplus) X(Erf)

// The same; these are rarer and their code is larger: on a GPU one kernel computes them all, and fused programs call
// them.
#define TROUPE_RARE_UNARY_OPS(X) \
  X(Sin)                         \
  X(Cos) X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Asinh) X(Acosh) X(Atanh) X(Expm1) X(Erfc) X(Lgamma) X(Digamma)

#define TROUPE_UNARY_OPS(X) \
  TROUPE_REAL_UNARY_OPS(X) TROUPE_FLOAT_UNARY_OPS(X) TROUPE_MATH_UNARY_OPS(X) TROUPE_RARE_UNARY_OPS(X)

// Two operands, which are broadcast, any real type. Exchanging the operands changes no bit of the first.
#define TROUPE_COMMUTATIVE_OPS(X) X(Add) X(Mul) X(SquaredDifference)
#define TROUPE_ORDERED_OPS(X) X(Sub) X(Maximum) X(Minimum)

#define TROUPE_ARITHMETIC_OPS(X) TROUPE_COMMUTATIVE_OPS(X) TROUPE_ORDERED_OPS(X)

// Gradient and result of an activation, of one shape, floating types.
#define TROUPE_FLOAT_GRADIENT_OPS(X) X(SigmoidGrad) X(TanhGrad)

// Two operands, which are broadcast, with a bool result: any data type, then any real type.
#define TROUPE_EQUALITY_OPS(X) X(Equal) X(NotEqual)
#define TROUPE_ORDER_OPS(X) X(Less) X(LessEqual) X(Greater) X(GreaterEqual)

#define TROUPE_COMPARISON_OPS(X) TROUPE_EQUALITY_OPS(X) TROUPE_ORDER_OPS(X)
