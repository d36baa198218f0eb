// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> array_gradients() {
  const auto squared = [](std::function<Output(const Outputs&)> f) {
    return of([f](const Outputs& x) { return square(f(x)); });
  };
  std::vector<GradientCase> out;
  out.push_back({.name = "Reshape", .shapes = {{2, 6}}, .build = squared([](auto& x) {
                                                          return reshape(x[0], Shape{3, -1});
                                                        })});
  out.push_back({.name = "ReshapeLike", .shapes = {{2, 6}, {3, 4}}, .build = squared([](auto& x) {
                                                                      return reshape_like(x[0], x[1]);
                                                                    })});
  out.push_back(
      {.name = "Squeeze", .shapes = {{2, 1, 3}}, .build = squared([](auto& x) { return squeeze(x[0], {1}); })});
  out.push_back(
      {.name = "ExpandDims", .shapes = {{2, 3}}, .build = squared([](auto& x) { return expand_dims(x[0], -1); })});
  out.push_back(
      {.name = "TransposeReverse", .shapes = {{2, 3, 2}}, .build = squared([](auto& x) { return transpose(x[0]); })});
  out.push_back({.name = "Transpose", .shapes = {{2, 3, 4}}, .build = squared([](auto& x) {
                                                               return transpose(x[0], {2, 0, 1});
                                                             })});
  out.push_back({.name = "Concat", .shapes = {{2, 1}, {2, 3}, {2, 2}}, .build = squared([](auto& x) {
                                                                         return concat({x[0], x[1], x[2]}, -1);
                                                                       })});
  out.push_back({.name = "Stack", .shapes = {{2, 3}, {2, 3}}, .build = squared([](auto& x) {
                                                                return stack({x[0], x[1], x[0]}, 1);
                                                              })});
  out.push_back({.name = "Split", .shapes = {{2, 4}}, .build = squared([](auto& x) {
                                                        return split(x[0], 1,
                                                                     2)[1];  // nothing flows into the first part
                                                      })});
  out.push_back({.name = "SplitSizes", .shapes = {{5, 2}}, .build = [](Graph&, const Outputs& x) {
                   const Outputs parts = split_sizes(x[0], 0, {2, 0, 3});
                   return Outputs{square(parts[0]), parts[2] * 3};
                 }});
  out.push_back({.name = "Unstack",
                 .shapes = {{2, 3}},
                 .build =
                     [](Graph&, const Outputs& x) {
                       const Outputs parts = unstack(x[0], 1);
                       return Outputs{parts[0] * parts[2]};
                     },
                 .dynamic = false});
  out.push_back({.name = "Slice", .shapes = {{3, 4}}, .build = squared([](auto& x) {
                                                        return slice(x[0], {1, 0}, {2, -1});
                                                      })});
  out.push_back({.name = "SliceGrad",
                 .shapes = {{1, 4}, {3, 4}},
                 .build = squared([](auto& x) {
                   return add_op("SliceGrad", {x[0], x[1], constant<std::int64_t>(*x[0].graph, {1, 0})});
                 })});
  out.push_back({.name = "StridedSlice",
                 .shapes = {{5, 4, 2}},
                 .build = squared([](auto& x) {
                   return strided_slice(x[0], {-1, 1}, {-100, 3}, {.strides = IntegersArg{-2, 1}});
                 })});
  out.push_back({.name = "StridedSliceGrad",
                 .shapes = {{2, 2}, {5, 2}},
                 .build = squared([](auto& x) {
                   Outputs inputs = x;
                   for (const std::int64_t argument : {-1, -100, -3, 0})
                     inputs.push_back(constant<std::int64_t>(*x[0].graph, {argument}));
                   return add_op("StridedSliceGrad", inputs);
                 })});
  out.push_back({.name = "Pad", .shapes = {{2, 3}, {}}, .build = squared([](auto& x) {
                                                          return pad(x[0], {1, -1}, {0, 2}, {.value_tensor = x[1]});
                                                        })});
  for (const PadMode mode : {PadMode::reflect, PadMode::edge, PadMode::symmetric, PadMode::wrap})
    out.push_back({.name = "Pad_" + std::string(name(mode)),
                   .shapes = {{2, 3}},
                   .build = squared([mode](auto& x) {
                     return pad(x[0], {1, -1}, {4, 2}, {.mode = mode});
                   })});
  out.push_back({.name = "BroadcastTo", .shapes = {{2, 1}}, .build = squared([](auto& x) {
                                                              return broadcast_to(x[0], {3, 1, 2});
                                                            })});
  out.push_back({.name = "Tile", .shapes = {{2, 3}}, .build = squared([](auto& x) { return tile(x[0], {2, 3}); })});
  out.push_back({.name = "TileGrad",
                 .shapes = {{4, 3}, {2, 3}},
                 .build = squared([](auto& x) {
                   return add_op("TileGrad", {x[0], x[1], constant<std::int64_t>(*x[0].graph, {2, 1})});
                 })});
  out.push_back({.name = "OneHot",
                 .shapes = {{2}},
                 .build = squared([](auto& x) {
                   return one_hot(constant<std::int64_t>(*x[0].graph, {1, 3, -1}), 3, {.values = x[0], .axis = 0});
                 })});
  out.push_back(
      {.name = "Gather", .shapes = {{4, 2}}, .build = squared([](auto& x) {
                                               return gather(x[0], constant<std::int32_t>(*x[0].graph, {3, 0, 3}));
                                             })});
  out.push_back({.name = "GatherAndMore",
                 .shapes = {{4, 2}},
                 .build = squared([](auto& x) {
                   const Output rows = constant(*x[0].graph, Tensor::of<std::int64_t>(Shape{2, 2}, {3, 0, 3, 1}));
                   return sum(gather(x[0] * x[0], rows), {0, 1}) * sum(x[0], {0}) * sum(gather(x[0], rows), {0, 1}) *
                          gather(x[0], constant<std::int64_t>(*x[0].graph, {1}));
                 })});
  out.push_back({.name = "ScatterAddRows",
                 .shapes = {{3, 2}, {4, 2}},
                 .build = squared([](auto& x) {
                   return scatter_add_rows(constant<std::int64_t>(*x[0].graph, {3, 0, 3}), x[0], x[1]);
                 })});
  out.push_back({.name = "Fill", .shapes = {{}}, .build = squared([](auto& x) {
                                                   return fill(constant<std::int64_t>(*x[0].graph, {2, 3}), x[0]);
                                                 })});
  out.push_back({.name = "Range",
                 .shapes = {{}, {}},
                 .build = squared([](auto& x) { return range(x[0], x[0] + x[1] * 3.5, x[1]); }),
                 .low = 0.5});
  return out;
}

}  // namespace troupe::testing
