// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> control_gradients() {
  const auto branches = [](bool taken) {
    return [taken](Graph& g, const Outputs& x) {
      return if_else(
          constant(g, taken), {x[0], constant<std::int64_t>(g, {1, 0}), x[1]},
          [](Graph&, const Outputs& in) {
            return Outputs{gather(in[0] * in[0], in[1]) * in[2], in[2] * 2};
          },
          [](Graph& body, const Outputs& in) {
            return Outputs{if_else(
                               less(sum(in[0]), constant(body, 1000.0)), {in[0]},
                               [](Graph&, const Outputs& y) { return Outputs{exp(y[0]) * 2}; },
                               [](Graph&, const Outputs& y) { return Outputs{y[0]}; })[0],
                           dropout(in[2], 0.5) * in[2]};
          });
    };
  };
  const auto repeated = [](bool recompute) {
    return [recompute](Graph& g, const Outputs& x) {
      const Outputs out = while_loop([&](const Outputs& v) { return less(v[0], scalar_like(v[0], 3)); },
                                     [&](const Outputs& v) {
                                       return Outputs{v[0] + 1.0, tanh(matmul(v[1], x[1])) + v[1] * x[1]};
                                     },
                                     {constant<std::int64_t>(g, 0), x[0]}, {.recompute = recompute});
      return Outputs{out[1]};
    };
  };
  const auto scanned = [](bool reverse) {
    return [reverse](Graph&, const Outputs& x) {
      const Scanned out = scan(
          [&](const Outputs& state, const Outputs& row) {
            const Output next = tanh(reshape(matmul(reshape(state[0], Shape{1, 2}), x[2]), Shape{2}) + row[0]);
            return Scanned{{next}, {next * row[0]}};
          },
          {x[0]}, {x[1]}, {.reverse = reverse});
      return Outputs{out.state[0], out.ys[0]};
    };
  };
  const auto nested = [](Graph& g, const Outputs& x) {
    return scan(
               [&](const Outputs& state, const Outputs& row) {
                 const Output inner = for_loop(constant<std::int64_t>(g, 2),
                                               [&](Output i, const Outputs& v) {
                                                 return if_else(
                                                     equal(i, scalar_like(i, 1)), {},
                                                     [&](Graph&, const Outputs&) { return Outputs{tanh(v[0])}; },
                                                     [&](Graph&, const Outputs&) { return Outputs{v[0] * row[0]}; });
                                               },
                                               {state[0]})[0];
                 return Scanned{{inner}, {square(inner)}};
               },
               {sum(x[1], {0})}, {x[0]})
        .ys;
  };
  // y = x^2 a, whose gradient is that of x^2 a, built by hand.
  const auto custom = [](Graph&, const Outputs& x) {
    return custom_gradient({.forward =
                                [](const Outputs& in) {
                                  return Outputs{square(in[0]) * in[1], in[0] * 3};
                                },
                            .backward =
                                [](const Outputs& in, const Outputs& out, const Outputs& grads) {
                                  const Output first = 2 * grads[0] * out[0] / in[0] + 3 * grads[1];
                                  return Outputs{first, grads[0] * square(in[0])};
                                }},
                           {x[0], x[1]});
  };
  const auto lists = [](Graph& g, const Outputs& x) {
    const auto at = [&](std::int64_t index) { return constant(g, index); };
    Output list = list_of(g, {x[0], square(x[1])});
    list = list_insert(list, x[0] * x[0], at(-2));
    const Output erased = list_erase(list, at(1));
    const Output stacked = list_stack(list_erase(erased, at(1)), DType::f64, Shape::unknown_rank());
    const Output joined = list_concat(list_erase(list_unstack(x[1]), at(-1)), 0, DType::f64);
    return Outputs{list_get(list, at(2), DType::f64), square(list_get(erased, at(-1), DType::f64)), square(stacked),
                   square(joined)};
  };
  // A list that one loop writes, and another reads by index.
  const auto written = [](Graph& g, const Outputs& x) {
    const Output count = constant<std::int64_t>(g, 3);
    const Outputs out = for_loop(count,
                                 [&](Output, const Outputs& v) {
                                   const Output next = tanh(v[0] * x[1]);
                                   return Outputs{next, list_insert(v[1], square(next))};
                                 },
                                 {x[0], list_of(g, {x[0]})});
    const Output read = for_loop(count,
                                 [&](Output i, const Outputs& v) {
                                   return Outputs{v[0] * list_get(out[1], i + 1, DType::f64, Shape{2}) + x[1]};
                                 },
                                 {x[0]})[0];
    return Outputs{read, square(list_stack(out[1], DType::f64, Shape{2}))};
  };
  const auto chosen = [](std::int64_t index) {
    return [index](Graph& g, const Outputs& x) {
      return switch_case(constant(g, index), {x[0]},
                         {[](Graph&, const Outputs& in) { return Outputs{square(in[0])}; },
                          [](Graph&, const Outputs& in) { return Outputs{exp(in[0])}; },
                          [&x](Graph&, const Outputs& in) { return Outputs{in[0] * x[0]}; }});
    };
  };
  return {
      {.name = "CustomGradient", .shapes = {{2, 2}, {2, 2}}, .build = custom, .low = 0.5},
      {.name = "SwitchFirst", .shapes = {{2}}, .build = chosen(0)},
      {.name = "SwitchOutside", .shapes = {{2}}, .build = chosen(-4)},
      {.name = "IfThen", .shapes = {{2, 2}, {2, 2}}, .build = branches(true)},
      {.name = "IfElse", .shapes = {{2, 2}, {2, 2}}, .build = branches(false), .eager = GradientCase::Eager::draws},
      {.name = "While", .shapes = {{2, 2}, {2, 2}}, .build = repeated(false), .eager = GradientCase::Eager::rounds},
      {.name = "WhileRecomputed",
       .shapes = {{2, 2}, {2, 2}},
       .build = repeated(true),
       .eager = GradientCase::Eager::rounds},
      {.name = "Scan", .shapes = {{2}, {3, 2}, {2, 2}}, .build = scanned(false), .eager = GradientCase::Eager::rounds},
      {.name = "ScanReversed",
       .shapes = {{2}, {3, 2}, {2, 2}},
       .build = scanned(true),
       .eager = GradientCase::Eager::rounds},
      {.name = "Rows", .shapes = {{3, 2}}, .build = of([](auto& x) {
                                             return square(list_stack(list_unstack(x[0]), DType::f64, Shape{2}));
                                           })},
      {.name = "Lists", .shapes = {{2}, {3, 2}}, .build = lists},
      {.name = "ListsInLoops", .shapes = {{2}, {2}}, .build = written, .eager = GradientCase::Eager::rounds},
      {.name = "LoopsInLoops", .shapes = {{3, 2}, {2, 2}}, .build = nested}};
}

}  // namespace troupe::testing
