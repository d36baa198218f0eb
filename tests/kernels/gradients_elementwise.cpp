// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> elementwise_gradients() {
  std::vector<GradientCase> out;
  const std::vector<std::vector<Shape>> pairs = {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1, 2}, {3, 1}}, {{}, {4}}};
  const std::vector<std::pair<std::string, Output (*)(Output, Output, Name)>> binaries = {
      {"Add", add},         {"Sub", sub},         {"Mul", mul}, {"Div", div},
      {"Maximum", maximum}, {"Minimum", minimum}, {"Pow", pow}, {"SquaredDifference", squared_difference}};
  for (const auto& [name, f] : binaries)
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool positive = name == "Pow" || name == "Div";
      out.push_back(
          {.name = name + std::to_string(i), .shapes = pairs[i], .build = binary(f), .low = positive ? 0.5 : -2});
    }
  const std::vector<std::pair<std::string, Output (*)(Output, Name)>> unaries = {
      {"Neg", neg},         {"Abs", abs},           {"Square", square}, {"Exp", exp},   {"Tanh", tanh},
      {"Sigmoid", sigmoid}, {"Softplus", softplus}, {"Erf", erf},       {"Relu", relu}, {"Identity", identity}};
  for (const auto& [name, f] : unaries) out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f)});
  const std::vector<std::pair<std::string, Output (*)(Output, Name)>> positives = {
      {"Log", log}, {"Log1p", log1p}, {"Sqrt", sqrt}, {"Rsqrt", rsqrt}};
  for (const auto& [name, f] : positives)
    out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f), .low = 0.4});
  const std::vector<Shape> two = {{3, 4}, {3, 4}};
  out.push_back({.name = "LeakyRelu", .shapes = {{3, 4}}, .build = of([](auto& x) { return leaky_relu(x[0], 0.3); })});
  out.push_back({.name = "ReluGrad", .shapes = two, .build = op("ReluGrad"), .twice = false});
  out.push_back(
      {.name = "LeakyReluGrad", .shapes = two, .build = op("LeakyReluGrad", {{"alpha", 0.3}}), .twice = false});
  out.push_back({.name = "SigmoidGrad", .shapes = two, .build = op("SigmoidGrad")});
  out.push_back({.name = "TanhGrad", .shapes = two, .build = op("TanhGrad")});
  out.push_back({.name = "Cast", .shapes = {{3}}, .build = of([](auto& x) {
                                                    return cast(cast(x[0], DType::f64, "same"), DType::f64, "again") *
                                                           x[0];
                                                  })});
  out.push_back(
      {.name = "Select",
       .shapes = {{2, 3}, {3}, {2, 1}},
       .build = of([](auto& x) { return select(greater(x[0], scalar_like(x[0], 0)), x[1] * x[1], x[2]) * x[0]; })});
  out.push_back({.name = "AddN", .shapes = {{2, 2}, {2, 2}, {2, 2}}, .build = of([](auto& x) {
                                                                       return square(add_n({x[0], x[1], x[0], x[2]}));
                                                                     })});
  out.push_back({.name = "SumToLike", .shapes = {{2, 3, 4}, {3, 1}}, .build = of([](auto& x) {
                                                                       return square(sum_to_like(x[0], x[1]));
                                                                     })});
  out.push_back({.name = "BroadcastLike",
                 .shapes = {{3, 1}, {2, 3, 4}},
                 .build = of([](auto& x) { return square(broadcast_like(x[0], x[1])) * x[1]; })});
  return out;
}

}  // namespace troupe::testing
