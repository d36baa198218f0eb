// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {
namespace {

BuildFn convolved(ConvOptions options) {
  return of([=](auto& x) { return conv(x[0], x[1], options); });
}
BuildFn transposed(ConvTransposeOptions options) {
  return of([=](auto& x) { return conv_transpose(x[0], x[1], options); });
}

void add_convolutions(std::vector<GradientCase>& out) {
  out.push_back({.name = "ConvSame", .shapes = {{2, 4, 3, 2}, {3, 2, 2, 3}}, .build = convolved({})});
  out.push_back(
      {.name = "ConvSameStrided", .shapes = {{1, 5, 4, 1}, {3, 3, 1, 2}}, .build = convolved({.strides = {2, 3}})});
  out.push_back({.name = "ConvValid",
                 .shapes = {{1, 4, 5, 2}, {2, 3, 2, 1}},
                 .build = convolved({.strides = {2, 1}, .padding = Padding::valid})});
  out.push_back({.name = "ConvGrouped",
                 .shapes = {{1, 4, 3, 4}, {2, 3, 2, 6}},
                 .build = convolved({.groups = 2, .padding = Padding::same_lower})});
  out.push_back({.name = "ConvDilated",
                 .shapes = {{1, 6, 5, 2}, {2, 2, 2, 1}},
                 .build = convolved({.dilations = {3, 2}, .padding = Padding::explicit_pads, .pads = {1, 0, 0, 2}})});
  out.push_back({.name = "Conv1d", .shapes = {{2, 5, 2}, {3, 2, 2}}, .build = convolved({.strides = {2}})});
  out.push_back({.name = "Conv3d",
                 .shapes = {{1, 2, 3, 3, 2}, {2, 2, 1, 1, 2}},
                 .build = convolved({.strides = {1, 2, 1}, .groups = 2})});
  out.push_back({.name = "ConvChannelsFirst",
                 .shapes = {{1, 4, 3, 4}, {2, 2, 2, 3}},
                 .build = convolved({.strides = {2, 1}, .groups = 2, .format = DataFormat::channels_first})});
  out.push_back({.name = "DepthwiseConv2d",
                 .shapes = {{1, 3, 4, 2}, {2, 2, 2, 2}},
                 .build = of([](auto& x) { return depthwise_conv2d(x[0], x[1]); }),
                 .dynamic = false});
  out.push_back({.name = "SeparableConv2d",
                 .shapes = {{1, 3, 3, 2}, {2, 2, 2, 1}, {1, 1, 2, 3}},
                 .build = of([](auto& x) { return separable_conv2d(x[0], x[1], x[2]); }),
                 .dynamic = false});
  const Attributes window = {{"strides", Integers{1, 2}}, {"padding", std::string("SAME")}};
  const std::vector<Shape> three = {{1, 3, 4, 2}, {2, 2, 2, 1}, {1, 3, 2, 1}};
  out.push_back({.name = "ConvBackpropInput", .shapes = three, .build = op("ConvBackpropInput", window)});
  out.push_back({.name = "ConvBackpropFilter", .shapes = three, .build = op("ConvBackpropFilter", window)});
  out.push_back(
      {.name = "ConvTranspose", .shapes = {{1, 3, 2, 2}, {3, 2, 1, 2}}, .build = transposed({.strides = {2, 3}})});
  out.push_back({.name = "ConvTransposePadded",
                 .shapes = {{1, 2, 2, 3}, {2, 1, 3, 2}},
                 .build = transposed({.strides = {2, 1},
                                      .dilations = {1, 2},
                                      .groups = 2,
                                      .padding = Padding::explicit_pads,
                                      .pads = {0, 1, 1, 1},
                                      .output_padding = {1, 0},
                                      .format = DataFormat::channels_first})});
  out.push_back({.name = "ConvTransposeOfSize",
                 .shapes = {{1, 3, 2}, {2, 1, 2}},
                 .build = of([](auto& x) { return conv_transpose(x[0], x[1], Integers{5}, {.strides = {2}}); })});
  for (const DataFormat format : {DataFormat::channels_last, DataFormat::channels_first})
    out.push_back({.name = format == DataFormat::channels_last ? "BiasAddOfImages" : "BiasAddChannelsFirst",
                   .shapes = {{2, 3, 3}, {3}},
                   .build = of([=](auto& x) { return square(bias_add(x[0], x[1], format)); })});
}

void add_blocks(std::vector<GradientCase>& out) {
  const BlockOptions wide{.strides = {2, 1}, .dilations = {1, 2}, .pads = {0, 1, 1, 0}};
  out.push_back({.name = "Im2Col",
                 .shapes = {{2, 2, 3, 4}},
                 .build = of([=](auto& x) {
                   return square(im2col(x[0], {2, 2}, wide));
                 }),
                 .dynamic = false});
  out.push_back({.name = "Col2Im", .shapes = {{2, 8, 6}}, .build = of([=](auto& x) {
                                                            return square(col2im(x[0], {3, 4}, {2, 2}, wide));
                                                          })});
}

void add_pools(std::vector<GradientCase>& out) {
  const PoolOptions pooling{.ksize = {2, 3}, .strides = {2, 1}};
  const PoolOptions wide{.ksize = {2, 2, 2},
                         .strides = {1, 2, 1},
                         .dilations = {1, 1, 2},
                         .padding = Padding::explicit_pads,
                         .pads = {0, 1, 0, 1, 0, 1},
                         .ceil_mode = true,
                         .format = DataFormat::channels_first};
  const Shape image{1, 4, 4, 2}, volume{1, 2, 3, 3, 4};
  const auto maxima = [&](std::string name, const PoolOptions& options, const Shape& shape) {
    out.push_back({.name = "MaxPool" + name, .shapes = {shape}, .build = of([=](auto& x) {
                                                                  return square(max_pool(x[0], options));
                                                                })});
    out.push_back({.name = "MaxPoolWithIndices" + name,
                   .shapes = {shape},
                   .build = of([=](auto& x) { return square(max_pool_with_indices(x[0], options).y); })});
    for (const auto& [text, divisor] :
         {std::pair{"Existing", PoolDivisor::existing}, {"Padded", PoolDivisor::padded}, {"One", PoolDivisor::one}})
      out.push_back({.name = "AvgPool" + name + text, .shapes = {shape}, .build = of([=, divisor = divisor](auto& x) {
                                                                           return square(
                                                                               avg_pool(x[0], options, divisor));
                                                                         })});
    for (const double p : {1.0, 2.0, 3.0})
      out.push_back({.name = fmt::format("LpPool{}{}", name, p),
                     .shapes = {shape},
                     .build = of([=](auto& x) { return lp_pool(x[0], p, options); }),
                     .twice = p == 2});
  };
  maxima("", pooling, image);
  maxima("Volume", wide, volume);
  out.push_back({.name = "AvgPoolGrad",
                 .shapes = {{1, 3, 4, 2}, {1, 2, 4, 2}},
                 .build = of([](auto& x) {
                   return square(add_op(
                       "AvgPoolGrad", {x[0], x[1]},
                       {{"ksize", Integers{2, 3}}, {"strides", Integers{2, 1}}, {"padding", std::string("SAME")}}));
                 })});
  const BuildFn unpool = [](Graph& g, const Outputs& x) {
    return Outputs{square(max_unpool(x[0], constant<std::int64_t>(g, {6, 1, 3}), constant<std::int64_t>(g, {2, 4})))};
  };
  out.push_back({.name = "MaxUnpool", .shapes = {{3}}, .build = unpool});
  const BuildFn scattered = [](Graph& g, const Outputs& x) {
    return Outputs{square(add_op("MaxPoolWithIndicesGrad", {x[0], constant<std::int64_t>(g, {5, 1, 5}), x[1]}))};
  };
  out.push_back({.name = "MaxPoolWithIndicesGrad", .shapes = {{2, 3}, {3}}, .build = scattered});
  for (const DataFormat format : {DataFormat::channels_last, DataFormat::channels_first}) {
    const std::string suffix = format == DataFormat::channels_last ? "" : "First";
    out.push_back({.name = "GlobalAvgPool" + suffix,
                   .shapes = {{2, 2, 3, 2}},
                   .build = of([=](auto& x) { return square(global_avg_pool(x[0], format)); })});
    out.push_back({.name = "GlobalMaxPool" + suffix,
                   .shapes = {{2, 2, 3, 2}},
                   .build = of([=](auto& x) { return square(global_max_pool(x[0], format)); })});
    out.push_back({.name = "GlobalLpPool" + suffix, .shapes = {{2, 2, 3, 2}}, .build = of([=](auto& x) {
                                                                                return global_lp_pool(x[0], 2, format);
                                                                              })});
  }
}

}  // namespace

std::vector<GradientCase> conv_gradients() {
  std::vector<GradientCase> out;
  add_convolutions(out);
  add_pools(out);
  add_blocks(out);
  return out;
}

}  // namespace troupe::testing
