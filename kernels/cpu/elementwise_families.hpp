// Elementwise ops with their functions on the CPU, grouped by kind.
#pragma once

#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {

// Each function calls fn(name, op) for its ops. Unary, any real type:
#define TROUPE_CALL(NAME) fn(#NAME, NAME##Op{});
#define TROUPE_CALL_MATH(NAME) fn(#NAME, NAME##Op<VectorMath>{});
template <class Fn>
void for_each_real_unary(Fn fn) {
  TROUPE_REAL_UNARY_OPS(TROUPE_CALL)
}

// Unary, floating types; without the rare ones (rare_loops.cpp).
template <class Fn>
void for_each_float_unary(Fn fn) {
  TROUPE_FLOAT_UNARY_OPS(TROUPE_CALL)
  TROUPE_MATH_UNARY_OPS(TROUPE_CALL_MATH)
}

// Binary, any real type.
template <class Fn>
void for_each_arithmetic(Fn fn) {
  TROUPE_ARITHMETIC_OPS(TROUPE_CALL)
}

// Binary with bool result: first any data type, then any real type.
template <class Fn>
void for_each_equality(Fn fn) {
  TROUPE_EQUALITY_OPS(TROUPE_CALL)
}
template <class Fn>
void for_each_order(Fn fn) {
  TROUPE_ORDER_OPS(TROUPE_CALL)
}

// Gradient and activation result, floating types.
template <class Fn>
void for_each_float_gradient(Fn fn) {
  TROUPE_FLOAT_GRADIENT_OPS(TROUPE_CALL)
}
#undef TROUPE_CALL
#undef TROUPE_CALL_MATH

}  // namespace troupe
