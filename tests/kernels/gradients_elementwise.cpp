// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> elementwise_gradients() {
  std::vector<GradientCase> out;
  const std::vector<std::vector<Shape>> pairs = {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1, 2}, {3, 1}}, {{}, {4}}};
  const std::vector<std::pair<std::string, Output (*)(Output, Output, Name)>> binaries = {
      {"Add", add},
      {"Sub", sub},
      {"Mul", mul},
      {"Div", div},
      {"Maximum", maximum},
      {"Minimum", minimum},
      {"Pow", pow},
      {"SquaredDifference", squared_difference},
      {"FloorMod", floor_mod},
      {"TruncateMod", truncate_mod},
      {"Atan2", atan2},
      {"Xlogy", xlogy}};
  for (const auto& [name, f] : binaries)
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool positive = name == "Pow" || name == "Div" || name == "Xlogy";
      out.push_back(
          {.name = name + std::to_string(i), .shapes = pairs[i], .build = binary(f), .low = positive ? 0.5 : -2});
    }
  for (const auto& [name, f] : {std::pair{"Hypot", &hypot}, {"LogAddExp", &log_add_exp}})
    out.push_back({.name = name, .shapes = {{2, 3}, {3}}, .build = binary(f)});
  // Where both operands are equal, or 0.
  out.push_back(
      {.name = "LogAddExpTies", .shapes = {{4}}, .build = of([](auto& x) { return log_add_exp(x[0], x[0]); })});
  out.push_back({.name = "Exp2", .shapes = {{4}}, .build = unary(exp2)});
  out.push_back(
      {.name = "Linspace", .shapes = {{}, {}}, .build = of([](auto& x) { return square(linspace(x[0], x[1], 4)); })});
  out.push_back(
      {.name = "ClipByNorm", .shapes = {{3, 4}}, .build = of([](auto& x) { return clip_by_norm(x[0], 2, {1}); })});
  const std::vector<std::pair<std::string, Output (*)(Output, Name)>> unaries = {
      {"Neg", neg},           {"Abs", abs},
      {"Square", square},     {"Exp", exp},
      {"Tanh", tanh},         {"Sigmoid", sigmoid},
      {"Softplus", softplus}, {"Erf", erf},
      {"Relu", relu},         {"Identity", identity},
      {"Sin", sin},           {"Cos", cos},
      {"Atan", atan},         {"Sinh", sinh},
      {"Cosh", cosh},         {"Asinh", asinh},
      {"Expm1", expm1},       {"Erfc", erfc},
      {"Softsign", softsign}, {"Silu", silu},
      {"Mish", mish},         {"HardSwish", hard_swish}};
  for (const auto& [name, f] : unaries) out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f)});
  const std::vector<std::pair<std::string, Output (*)(Output, Name)>> positives = {
      {"Log", log}, {"Log1p", log1p}, {"Sqrt", sqrt}, {"Rsqrt", rsqrt}};
  for (const auto& [name, f] : positives)
    out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f), .low = 0.4});
  for (const auto& [name, f] : std::vector<std::pair<std::string, Output (*)(Output, Name)>>{
           {"Tan", tan}, {"Asin", asin}, {"Acos", acos}, {"Atanh", atanh}})
    out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f), .low = -0.8, .high = 0.8});
  for (const auto& [name, f] : std::vector<std::pair<std::string, Output (*)(Output, Name)>>{
           {"Acosh", acosh}, {"Lgamma", lgamma}, {"Digamma", digamma}})
    out.push_back({.name = name, .shapes = {{3, 4}}, .build = unary(f), .low = 1.2, .high = 3});
  out.push_back(
      {.name = "Polygamma", .shapes = {{3, 4}}, .build = of([](auto& x) { return polygamma(x[0], 2); }), .low = 0.8});
  out.push_back({.name = "Elu", .shapes = {{3, 4}}, .build = of([](auto& x) { return elu(x[0], 1.5); })});
  out.push_back({.name = "Selu", .shapes = {{3, 4}}, .build = of([](auto& x) { return selu(x[0]); })});
  out.push_back({.name = "Celu", .shapes = {{3, 4}}, .build = of([](auto& x) { return celu(x[0], 0.7); })});
  out.push_back({.name = "Gelu", .shapes = {{3, 4}}, .build = of([](auto& x) { return gelu(x[0]); })});
  out.push_back(
      {.name = "GeluTanh", .shapes = {{3, 4}}, .build = of([](auto& x) { return gelu(x[0], {.approximate = true}); })});
  out.push_back({.name = "PRelu", .shapes = {{3, 4}, {4}}, .build = of([](auto& x) { return prelu(x[0], x[1]); })});
  out.push_back({.name = "Clip", .shapes = {{3, 4}, {4}, {}}, .build = of([](auto& x) {
                                                                return square(clip(x[0], x[1], x[2]));
                                                              })});
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
