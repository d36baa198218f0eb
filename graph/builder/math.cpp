#include "troupe/graph/builder/math.hpp"

namespace troupe {

Output add(Output a, Output b, Name name) { return add_op("Add", {a, b}, {}, std::move(name)); }
Output sub(Output a, Output b, Name name) { return add_op("Sub", {a, b}, {}, std::move(name)); }
Output mul(Output a, Output b, Name name) { return add_op("Mul", {a, b}, {}, std::move(name)); }
Output div(Output a, Output b, Name name) { return add_op("Div", {a, b}, {}, std::move(name)); }
Output maximum(Output a, Output b, Name name) { return add_op("Maximum", {a, b}, {}, std::move(name)); }
Output minimum(Output a, Output b, Name name) { return add_op("Minimum", {a, b}, {}, std::move(name)); }
Output pow(Output a, Output b, Name name) { return add_op("Pow", {a, b}, {}, std::move(name)); }
Output squared_difference(Output a, Output b, Name name) {
  return add_op("SquaredDifference", {a, b}, {}, std::move(name));
}
Output equal(Output a, Output b, Name name) { return add_op("Equal", {a, b}, {}, std::move(name)); }
Output not_equal(Output a, Output b, Name name) { return add_op("NotEqual", {a, b}, {}, std::move(name)); }
Output less(Output a, Output b, Name name) { return add_op("Less", {a, b}, {}, std::move(name)); }
Output less_equal(Output a, Output b, Name name) { return add_op("LessEqual", {a, b}, {}, std::move(name)); }
Output greater(Output a, Output b, Name name) { return add_op("Greater", {a, b}, {}, std::move(name)); }
Output greater_equal(Output a, Output b, Name name) { return add_op("GreaterEqual", {a, b}, {}, std::move(name)); }
Output logical_and(Output a, Output b, Name name) { return add_op("LogicalAnd", {a, b}, {}, std::move(name)); }
Output logical_or(Output a, Output b, Name name) { return add_op("LogicalOr", {a, b}, {}, std::move(name)); }

Output operator+(Output a, Output b) { return add(a, b); }
Output operator+(Output a, double b) { return add(a, scalar_like(a, b)); }
Output operator+(double a, Output b) { return add(scalar_like(b, a), b); }
Output operator-(Output a, Output b) { return sub(a, b); }
Output operator-(Output a, double b) { return sub(a, scalar_like(a, b)); }
Output operator-(double a, Output b) { return sub(scalar_like(b, a), b); }
Output operator*(Output a, Output b) { return mul(a, b); }
Output operator*(Output a, double b) { return mul(a, scalar_like(a, b)); }
Output operator*(double a, Output b) { return mul(scalar_like(b, a), b); }
Output operator/(Output a, Output b) { return div(a, b); }
Output operator/(Output a, double b) { return div(a, scalar_like(a, b)); }
Output operator/(double a, Output b) { return div(scalar_like(b, a), b); }
Output operator-(Output x) { return neg(x); }

Output neg(Output x, Name name) { return add_op("Neg", {x}, {}, std::move(name)); }
Output abs(Output x, Name name) { return add_op("Abs", {x}, {}, std::move(name)); }
Output sign(Output x, Name name) { return add_op("Sign", {x}, {}, std::move(name)); }
Output square(Output x, Name name) { return add_op("Square", {x}, {}, std::move(name)); }
Output exp(Output x, Name name) { return add_op("Exp", {x}, {}, std::move(name)); }
Output log(Output x, Name name) { return add_op("Log", {x}, {}, std::move(name)); }
Output log1p(Output x, Name name) { return add_op("Log1p", {x}, {}, std::move(name)); }
Output sqrt(Output x, Name name) { return add_op("Sqrt", {x}, {}, std::move(name)); }
Output rsqrt(Output x, Name name) { return add_op("Rsqrt", {x}, {}, std::move(name)); }
Output tanh(Output x, Name name) { return add_op("Tanh", {x}, {}, std::move(name)); }
Output sigmoid(Output x, Name name) { return add_op("Sigmoid", {x}, {}, std::move(name)); }
Output softplus(Output x, Name name) { return add_op("Softplus", {x}, {}, std::move(name)); }
Output floor(Output x, Name name) { return add_op("Floor", {x}, {}, std::move(name)); }
Output erf(Output x, Name name) { return add_op("Erf", {x}, {}, std::move(name)); }
Output relu(Output x, Name name) { return add_op("Relu", {x}, {}, std::move(name)); }
Output logical_not(Output x, Name name) { return add_op("LogicalNot", {x}, {}, std::move(name)); }
Output zeros_like(Output x, Name name) { return add_op("ZerosLike", {x}, {}, std::move(name)); }
Output ones_like(Output x, Name name) { return add_op("OnesLike", {x}, {}, std::move(name)); }
Output leaky_relu(Output x, double alpha, Name name) {
  return add_op("LeakyRelu", {x}, {{"alpha", alpha}}, std::move(name));
}
Output cast(Output x, DType to, Name name) {
  if (x.valid() && x.dtype() == to && name.empty()) return x;
  return add_op("Cast", {x}, {{"DstT", to}}, std::move(name));
}
Output select(Output cond, Output a, Output b, Name name) {
  return add_op("Select", {cond, a, b}, {}, std::move(name));
}

Output add_n(const Outputs& xs, Name name) { return add_op("AddN", xs, {}, std::move(name)); }
Output sum_to_like(Output x, Output like, Name name) { return add_op("SumToLike", {x, like}, {}, std::move(name)); }
Output broadcast_like(Output x, Output like, Name name) {
  return add_op("BroadcastLike", {x, like}, {}, std::move(name));
}
Output shape_of(Output x, Name name) { return add_op("Shape", {x}, {}, std::move(name)); }
Output element_count(Output x, Name name) { return add_op("Size", {x}, {}, std::move(name)); }

}  // namespace troupe
