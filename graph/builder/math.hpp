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
Output sqrt(Output x, Name name = {});
Output rsqrt(Output x, Name name = {});
Output tanh(Output x, Name name = {});
Output sigmoid(Output x, Name name = {});
Output softplus(Output x, Name name = {});
Output floor(Output x, Name name = {});
Output erf(Output x, Name name = {});
Output relu(Output x, Name name = {});
Output leaky_relu(Output x, double alpha = 0.2, Name name = {});
Output cast(Output x, DType to, Name name = {});  // x itself if it already has the dtype and no name is given

Output equal(Output a, Output b, Name name = {});
Output not_equal(Output a, Output b, Name name = {});
Output less(Output a, Output b, Name name = {});
Output less_equal(Output a, Output b, Name name = {});
Output greater(Output a, Output b, Name name = {});
Output greater_equal(Output a, Output b, Name name = {});
Output logical_and(Output a, Output b, Name name = {});
Output logical_or(Output a, Output b, Name name = {});
Output logical_not(Output x, Name name = {});
Output select(Output cond, Output a, Output b, Name name = {});  // cond ? a : b

Output add_n(const Outputs& xs, Name name = {});  // same shape, summed from left to right
// Sums x over the axes along which `like` was broadcast to x's shape.
Output sum_to_like(Output x, Output like, Name name = {});
Output broadcast_like(Output x, Output like, Name name = {});
Output zeros_like(Output x, Name name = {});
Output ones_like(Output x, Name name = {});
Output shape_of(Output x, Name name = {});       // i64 [rank]
Output element_count(Output x, Name name = {});  // i64 scalar

}  // namespace troupe
