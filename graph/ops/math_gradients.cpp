// Gradients of the elementwise ops: in each, g = dL/dy.
#include <cmath>
#include <map>
#include <numbers>

#include <troupe/graph/ops/gradients.hpp>

namespace troupe {

Output rank_of(Output x) { return element_count(shape_of(x)); }

Output unbroadcast(Output gradient, Output x) {
  if (x.shape().fully_known() && x.shape() == gradient.shape()) return gradient;
  return sum_to_like(gradient, x);
}

namespace {

// The gradients of both operands of a broadcasting op; each is built only if needed.
template <class A, class B>
void binary(GradientContext& c, A&& of_a, B&& of_b) {
  const Output g = c.grad();
  const Output a = c.input(0);
  const Output b = c.input(1);
  if (c.needs(0)) c.set(0, unbroadcast(of_a(g, a, b), a));
  if (c.needs(1)) c.set(1, unbroadcast(of_b(g, a, b), b));
}

void add_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output, Output) { return g; }, [](Output g, Output, Output) { return g; });
}
void sub_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output, Output) { return g; }, [](Output g, Output, Output) { return -g; });
}
void mul_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output, Output b) { return g * b; }, [](Output g, Output a, Output) { return g * a; });
}
void div_gradient(GradientContext& c) {
  const Output y = c.output(0);
  binary(
      c, [](Output g, Output, Output b) { return g / b; }, [&](Output g, Output, Output b) { return -(g * y) / b; });
}
// g where `holds` is true, else 0.
Output where(Output (*holds)(Output, Output, Name), Output g, Output a, Output b) {
  const Output zeros = zeros_like(g);
  return select(holds(a, b, {}), g, zeros);
}
// Where both are equal, a gets the whole gradient.
void maximum_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output a, Output b) { return where(greater_equal, g, a, b); },
      [](Output g, Output a, Output b) { return where(less, g, a, b); });
}
void minimum_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output a, Output b) { return where(less_equal, g, a, b); },
      [](Output g, Output a, Output b) { return where(greater, g, a, b); });
}
// y = a^b. At b = 0 the derivative for a is 0; at a <= 0 that for b is taken as 0. Otherwise both would be NaN.
void pow_gradient(GradientContext& c) {
  const Output y = c.output(0);
  binary(
      c,
      [](Output g, Output a, Output b) {
        const Output zero = scalar_like(b, 0);
        const Output less_one = b - 1;
        const Output ones = ones_like(b);
        const Output power = pow(a, select(equal(b, zero), ones, less_one));
        return g * b * power;
      },
      [&](Output g, Output a, Output) {
        const Output positive = greater(a, scalar_like(a, 0));
        const Output logarithm = log(select(positive, a, ones_like(a)));
        return g * y * logarithm;
      });
}
void squared_difference_gradient(GradientContext& c) {
  const auto of = [](Output g, Output x, Output other) {
    const Output difference = x - other;
    return 2 * g * difference;
  };
  binary(
      c, [&](Output g, Output a, Output b) { return of(g, a, b); },
      [&](Output g, Output a, Output b) { return of(g, b, a); });
}

// a - b floor(a / b), and the same with a / b rounded towards 0: both quotients are locally constant.
void floor_mod_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output, Output) { return g; },
      [](Output g, Output a, Output b) { return -(g * floor_div(a, b)); });
}
void truncate_mod_gradient(GradientContext& c) {
  binary(
      c, [](Output g, Output, Output) { return g; },
      [](Output g, Output a, Output b) {
        const Output quotient = a / b;
        const Output whole = floor(abs(quotient));
        return -(g * sign(quotient) * whole);
      });
}
void atan2_gradient(GradientContext& c) {
  const auto over_square = [](Output dividend, Output a, Output b) {
    const Output of_a = a * a;
    const Output of_b = b * b;
    return dividend / (of_a + of_b);
  };
  binary(
      c, [&](Output g, Output a, Output b) { return over_square(g * b, a, b); },
      [&](Output g, Output a, Output b) { return over_square(-(g * a), a, b); });
}
// a log(b), 0 where a is 0.
void xlogy_gradient(GradientContext& c) {
  const auto is_zero = [](Output a) { return equal(a, scalar_like(a, 0)); };
  binary(
      c,
      [&](Output g, Output a, Output b) {
        const Output zero = is_zero(a);
        const Output safe = select(zero, ones_like(b), b);
        return g * log(safe);
      },
      [&](Output g, Output a, Output b) {
        const Output zero = is_zero(a);
        const Output safe = select(zero, ones_like(b), b);
        return g * a / safe;
      });
}

// y = f(x): the gradient is a function of g, x and y.
using Unary = Output (*)(Output g, Output x, Output y);
GradientFn unary(Unary formula) {
  return [formula](GradientContext& c) { c.set(0, formula(c.grad(), c.input(0), c.output(0))); };
}

// dx = dy f(kept): linear in dy, so its gradient for dy is the op itself. `of_kept` is the gradient for the kept value,
// null where it is zero almost everywhere.
GradientFn activation(Unary of_kept) {
  return [of_kept](GradientContext& c) {
    const Output g = c.grad();
    if (c.needs(0)) {
      Attributes attributes = c.attributes();
      c.set(0, add_op(c.node().op->name, {g, c.input(1)}, std::move(attributes)));
    }
    if (c.needs(1) && of_kept) c.set(1, of_kept(g, c.input(0), c.input(1)));
  };
}

// 1 - x^2, without cancellation next to 1.
Output one_less_square(Output x) {
  const Output below = 1 - x;
  return below * (x + 1);
}

void polygamma_gradient(GradientContext& c) {
  const Output next = polygamma(c.input(0), c.attributes().integer("n") + 1);
  c.set(0, c.grad() * next);
}

void leaky_relu_gradient(GradientContext& c) {
  c.set(0, add_op("LeakyReluGrad", {c.grad(), c.input(0)}, {{"alpha", c.attributes().real("alpha")}}));
}

void select_gradient(GradientContext& c) {
  const Output g = c.grad();
  const Output zeros = zeros_like(g);
  if (c.needs(1)) c.set(1, unbroadcast(select(c.input(0), g, zeros), c.input(1)));
  if (c.needs(2)) c.set(2, unbroadcast(select(c.input(0), zeros, g), c.input(2)));
}

void add_n_gradient(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, c.grad());
}
void sum_to_like_gradient(GradientContext& c) { c.set(0, broadcast_like(c.grad(), c.input(0))); }
void broadcast_like_gradient(GradientContext& c) { c.set(0, unbroadcast(c.grad(), c.input(0))); }

const std::map<std::string_view, GradientFn>& table() {
  static const std::map<std::string_view, GradientFn> gradients = {
      {"Add", add_gradient},
      {"Sub", sub_gradient},
      {"Mul", mul_gradient},
      {"Div", div_gradient},
      {"Maximum", maximum_gradient},
      {"Minimum", minimum_gradient},
      {"Pow", pow_gradient},
      {"SquaredDifference", squared_difference_gradient},
      {"FloorMod", floor_mod_gradient},
      {"TruncateMod", truncate_mod_gradient},
      {"Atan2", atan2_gradient},
      {"Xlogy", xlogy_gradient},
      {"Polygamma", polygamma_gradient},
      {"Neg", unary([](Output g, Output, Output) { return -g; })},
      {"Abs", unary([](Output g, Output x, Output) { return g * sign(x); })},
      {"Square", unary([](Output g, Output x, Output) { return 2 * g * x; })},
      {"Exp", unary([](Output g, Output, Output y) { return g * y; })},
      {"Log", unary([](Output g, Output x, Output) { return g / x; })},
      {"Log1p", unary([](Output g, Output x, Output) { return g / (x + 1); })},
      {"Sqrt", unary([](Output g, Output, Output y) { return 0.5 * g / y; })},
      {"Rsqrt", unary([](Output g, Output, Output y) {
         const Output cube = y * y * y;
         return -0.5 * g * cube;
       })},
      {"Tanh", unary([](Output g, Output, Output y) {
         return add_op("TanhGrad", {g, y});
       })},
      {"Sigmoid", unary([](Output g, Output, Output y) {
         return add_op("SigmoidGrad", {g, y});
       })},
      {"Softplus", unary([](Output g, Output x, Output) { return g * sigmoid(x); })},
      {"Erf", unary([](Output g, Output x, Output) {
         const Output bell = exp(-square(x));
         return 2 / std::sqrt(std::numbers::pi) * g * bell;
       })},
      {"Erfc", unary([](Output g, Output x, Output) {
         const Output bell = exp(-square(x));
         return -2 / std::sqrt(std::numbers::pi) * g * bell;
       })},
      {"Sin", unary([](Output g, Output x, Output) { return g * cos(x); })},
      {"Cos", unary([](Output g, Output x, Output) { return -(g * sin(x)); })},
      {"Tan", unary([](Output g, Output, Output y) { return g * (1 + square(y)); })},
      {"Asin", unary([](Output g, Output x, Output) { return g * rsqrt(one_less_square(x)); })},
      {"Acos", unary([](Output g, Output x, Output) { return -(g * rsqrt(one_less_square(x))); })},
      {"Atan", unary([](Output g, Output x, Output) { return g / (1 + square(x)); })},
      {"Sinh", unary([](Output g, Output x, Output) { return g * cosh(x); })},
      {"Cosh", unary([](Output g, Output x, Output) { return g * sinh(x); })},
      {"Asinh", unary([](Output g, Output x, Output) { return g * rsqrt(1 + square(x)); })},
      {"Acosh", unary([](Output g, Output x, Output) { return g * rsqrt(-one_less_square(x)); })},
      {"Atanh", unary([](Output g, Output x, Output) { return g / one_less_square(x); })},
      {"Expm1", unary([](Output g, Output, Output y) { return g * (y + 1); })},
      {"Lgamma", unary([](Output g, Output x, Output) { return g * digamma(x); })},
      {"Digamma", unary([](Output g, Output x, Output) { return g * polygamma(x, 1); })},
      {"Softsign", unary([](Output g, Output x, Output) { return g / square(1 + abs(x)); })},
      {"Relu", unary([](Output g, Output, Output y) {
         return add_op("ReluGrad", {g, y});
       })},
      {"LeakyRelu", leaky_relu_gradient},
      {"ReluGrad", activation(nullptr)},
      {"LeakyReluGrad", activation(nullptr)},
      {"SigmoidGrad", activation([](Output g, Output dy, Output y) {
         const Output slope = 1 - 2 * y;
         return g * dy * slope;
       })},
      {"TanhGrad", activation([](Output g, Output dy, Output y) { return -2 * g * dy * y; })},
      {"Select", select_gradient},
      {"AddN", add_n_gradient},
      {"SumToLike", sum_to_like_gradient},
      {"BroadcastLike", broadcast_like_gradient},
  };
  return gradients;
}

}  // namespace

GradientFn math_gradient(std::string_view op) {
  const auto found = table().find(op);
  return found == table().end() ? GradientFn() : found->second;
}

}  // namespace troupe
