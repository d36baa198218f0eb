// Builder API for elementwise ops. Binary functions broadcast like NumPy.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

Output add(Output a, Output b, Name name = {});
Output sub(Output a, Output b, Name name = {});
Output mul(Output a, Output b, Name name = {});
Output div(Output a, Output b, Name name = {});
Output maximum(Output a, Output b, Name name = {});
Output minimum(Output a, Output b, Name name = {});
Output pow(Output a, Output b, Name name = {});
Output squared_difference(Output a, Output b, Name name = {});
Output floor_div(Output a, Output b, Name name = {});     // floor(a / b)
Output floor_mod(Output a, Output b, Name name = {});     // a - b floor(a / b): has the sign of b
Output truncate_mod(Output a, Output b, Name name = {});  // the remainder of C, fmod(): has the sign of a
Output atan2(Output y, Output x, Name name = {});         // angle of the point (x, y), in [-pi, pi]
Output xlogy(Output a, Output b, Name name = {});         // a log(b), 0 where a is 0
Output hypot(Output a, Output b, Name name = {});         // sqrt(a^2 + b^2), also where squares overflow
Output log_add_exp(Output a, Output b, Name name = {});   // log(exp(a) + exp(b)), without overflow
Output operator+(Output a, Output b);
Output operator-(Output a, Output b);
Output operator*(Output a, Output b);
Output operator/(Output a, Output b);
Output operator-(Output x);
Output operator+(Output a, double b);  // the number becomes a constant of the other operand's dtype
Output operator-(Output a, double b);
Output operator*(Output a, double b);
Output operator/(Output a, double b);
Output operator+(double a, Output b);
Output operator-(double a, Output b);
Output operator*(double a, Output b);
Output operator/(double a, Output b);

Output neg(Output x, Name name = {});
Output abs(Output x, Name name = {});
Output sign(Output x, Name name = {});
Output square(Output x, Name name = {});
Output exp(Output x, Name name = {});
Output log(Output x, Name name = {});
Output log1p(Output x, Name name = {});
Output log2(Output x, Name name = {});
Output log10(Output x, Name name = {});
Output exp2(Output x, Name name = {});  // 2^x
Output sqrt(Output x, Name name = {});
Output rsqrt(Output x, Name name = {});
Output tanh(Output x, Name name = {});
Output sigmoid(Output x, Name name = {});
Output softplus(Output x, Name name = {});
Output floor(Output x, Name name = {});
Output ceil(Output x, Name name = {});
Output round(Output x, Name name = {});  // halves to the even integer
Output erf(Output x, Name name = {});
Output erfc(Output x, Name name = {});  // 1 - erf(x)
Output sin(Output x, Name name = {});
Output cos(Output x, Name name = {});
Output tan(Output x, Name name = {});
Output asin(Output x, Name name = {});
Output acos(Output x, Name name = {});
Output atan(Output x, Name name = {});
Output sinh(Output x, Name name = {});
Output cosh(Output x, Name name = {});
Output asinh(Output x, Name name = {});
Output acosh(Output x, Name name = {});
Output atanh(Output x, Name name = {});
Output expm1(Output x, Name name = {});                      // exp(x) - 1
Output lgamma(Output x, Name name = {});                     // log |gamma(x)|
Output digamma(Output x, Name name = {});                    // its derivative
Output polygamma(Output x, std::int64_t n, Name name = {});  // the n-th derivative of digamma, n >= 1; x > 0
Output reciprocal(Output x, Name name = {});                 // 1 / x
Output relu(Output x, Name name = {});
Output leaky_relu(Output x, double alpha = 0.2, Name name = {});
// max(x, low), then min(that, high): `high` where low > high. Either bound may be an invalid Output: none.
Output clip(Output x, Output low, Output high, Name name = {});
Output clip(Output x, double low, double high, Name name = {});
// By as_string() and string_to_number() to and from strings. Between numbers: to a narrower floating type rounds to
// nearest even; floating to integer rounds towards 0, out of range becomes the nearest limit, NaN becomes 0; integer to
// a narrower one is modulo 2^bits; to bool is true unless 0.
Output cast(Output x, DType to, Name name = {});  // x itself if it already has the dtype and no name is given

// The shortest decimal number that reads as x: "1.5", "1.0", "1e-05", "-INF", "NaN", "7", "true".
Output as_string(Output x, Name name = {});
// Reads what as_string() writes, spaces around it, and "INF" and "NaN" in letters of any case. Integers: of "100.5" the
// whole part, out of range the nearest limit. The kernel throws invalid_argument for other text.
Output string_to_number(Output x, DType dtype = DType::f32, Name name = {});

Output equal(Output a, Output b, Name name = {});
Output not_equal(Output a, Output b, Name name = {});
Output less(Output a, Output b, Name name = {});
Output less_equal(Output a, Output b, Name name = {});
Output greater(Output a, Output b, Name name = {});
Output greater_equal(Output a, Output b, Name name = {});
Output logical_and(Output a, Output b, Name name = {});
Output logical_or(Output a, Output b, Name name = {});
Output logical_xor(Output a, Output b, Name name = {});
Output logical_not(Output x, Name name = {});
Output is_nan(Output x, Name name = {});
struct IsInfOptions {
  bool negative = true;  // whether negative infinities count
  bool positive = true;
  Name name{};
};
Output is_inf(Output x, IsInfOptions options = {});
Output is_finite(Output x, Name name = {});
Output select(Output cond, Output a, Output b, Name name = {});  // cond ? a : b

// Integers. A shift by as many bits as there are, or more, and by a negative number moves all bits out; shifts to the
// right repeat the sign.
Output bitwise_and(Output a, Output b, Name name = {});
Output bitwise_or(Output a, Output b, Name name = {});
Output bitwise_xor(Output a, Output b, Name name = {});
Output bitwise_not(Output x, Name name = {});
Output left_shift(Output x, Output bits, Name name = {});
Output right_shift(Output x, Output bits, Name name = {});

Output add_n(const Outputs& xs, Name name = {});  // same shape, summed from left to right
// Sums x over the axes along which `like` was broadcast to x's shape.
Output sum_to_like(Output x, Output like, Name name = {});
Output broadcast_like(Output x, Output like, Name name = {});
Output zeros_like(Output x, Name name = {});
Output ones_like(Output x, Name name = {});
Output shape_of(Output x, Name name = {});       // i64 [rank]
Output element_count(Output x, Name name = {});  // i64 scalar

}  // namespace troupe
