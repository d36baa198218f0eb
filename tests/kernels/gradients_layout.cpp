// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> layout_gradients() {
  const auto squared = [](std::function<Output(const Outputs&)> f) {
    return of([f](const Outputs& x) { return square(f(x)); });
  };
  std::vector<GradientCase> out;
  const auto add = [&](std::string name, std::vector<Shape> shapes, std::function<Output(const Outputs&)> f) {
    out.push_back({.name = std::move(name), .shapes = std::move(shapes), .build = squared(std::move(f))});
  };
  add("Reverse", {{2, 3, 2}}, [](auto& x) { return reverse(x[0], {0, -1}); });
  add("ReverseSequence", {{3, 2, 2}}, [](auto& x) {
    return reverse_sequence(x[0], constant<std::int64_t>(*x[0].graph, {3, 2}));
  });
  add("Roll", {{3, 4}}, [](auto& x) { return roll(x[0], {1, -2}, {0, 1}); });
  add("RepeatUniformly", {{2, 3}}, [](auto& x) { return repeat(x[0], 2, 1); });
  add("Repeat", {{3, 2}}, [](auto& x) { return repeat(x[0], {2, 0, 3}, 0); });
  add("RepeatGrad", {{5, 2}, {3, 2}}, [](auto& x) {
    return add_op("RepeatGrad", {x[0], x[1], constant<std::int64_t>(*x[0].graph, {2, 0, 3})},
                  {{"axis", std::int64_t{0}}});
  });
  add("PadGrad", {{6}, {3}}, [](auto& x) {
    return add_op("PadGrad", {x[0], x[1], constant<std::int64_t>(*x[0].graph, {1, 2})},
                  {{"mode", std::string("reflect")}});
  });
  add("Trilu", {{2, 3, 3}}, [](auto& x) { return triu(x[0], -1) * tril(x[0], 1); });
  add("DiagPart", {{2, 3, 4}}, [](auto& x) { return diag_part(x[0], 1); });
  add("SetDiag", {{2, 3, 4}, {2, 2}}, [](auto& x) { return set_diag(x[0], x[1], -1); });
  add("Diag", {{2, 2}}, [](auto& x) { return diag(x[0], -1); });
  add("DepthToSpace", {{1, 8, 1, 2}}, [](auto& x) { return depth_to_space(x[0], 2); });
  add("DepthToSpaceCrd", {{1, 8, 1, 2}}, [](auto& x) { return depth_to_space(x[0], 2, {.column_first = true}); });
  add("SpaceToDepth", {{1, 2, 4, 2}}, [](auto& x) { return space_to_depth(x[0], 2, {.channels_last = true}); });
  add("SpaceToBatch", {{1, 3, 2}}, [](auto& x) { return space_to_batch(x[0], 2, {1, 0}); });
  add("BatchToSpace", {{4, 2, 1}}, [](auto& x) { return batch_to_space(x[0], 2, {1, 0}); });
  return out;
}

}  // namespace troupe::testing
