// Layers beside Keras 3 (TensorFlow 2.21): the numbers are what its layers give for the same patterns.
#include "tests/graph/layers/layer_values.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using testing::apply_layer;
using testing::expect_near;
using testing::input_pattern;
using Names = std::vector<std::string>;

Tensor value(const LayerPtr& layer, const std::vector<Tensor>& inputs) { return apply_layer(layer, inputs).outputs[0]; }

TEST(LayerValues, EveryActivationIsThatOfKeras) {
  const std::vector<std::pair<std::string, std::vector<double>>> expected = {
      {"none", {-3, -1.5, -0.5, 0, 0.25, 1.75, 4}},
      {"relu", {0, 0, 0, 0, 0.25, 1.75, 4}},
      {"leaky_relu", {-0.6, -0.3, -0.1, 0, 0.25, 1.75, 4}},
      {"sigmoid", {0.04742587, 0.1824255, 0.3775407, 0.5, 0.5621765, 0.8519528, 0.9820138}},
      {"tanh", {-0.9950547, -0.9051483, -0.4621171, 0, 0.2449187, 0.9413756, 0.9993293}},
      {"softplus", {0.04858735, 0.2014133, 0.474077, 0.6931472, 0.8259394, 1.910224, 4.01815}},
      {"softmax", {0.000783848, 0.003512963, 0.009549223, 0.01574401, 0.02021571, 0.0906005, 0.8595937}},
      {"log_softmax", {-7.151295, -5.651295, -4.651295, -4.151295, -3.901295, -2.401295, -0.1512954}},
      {"relu6", {0, 0, 0, 0, 0.25, 1.75, 4}},
      {"elu", {-0.950213, -0.7768698, -0.3934693, 0, 0.25, 1.75, 4}},
      {"selu", {-1.670569, -1.365814, -0.6917582, 0, 0.2626753, 1.838727, 4.202804}},
      {"celu", {-0.950213, -0.7768698, -0.3934693, 0, 0.25, 1.75, 4}},
      {"gelu", {-0.004049696, -0.1002108, -0.1542688, 0, 0.1496766, 1.679896, 3.999873}},
      {"gelu_approximate", {-0.0036374331, -0.10042843, -0.154286, 0, 0.14967535, 1.6797953, 3.9999299}},
      {"silu", {-0.1422776, -0.2736383, -0.1887703, 0, 0.1405441, 1.490917, 3.928055}},
      {"mish", {-0.1456475, -0.2980998, -0.2207438, 0, 0.1695724, 1.674932, 3.997412}},
      {"exponential", {0.04978707, 0.2231302, 0.6065307, 1, 1.284025, 5.754603, 54.59815}},
      {"softsign", {-0.75, -0.6, -0.3333333, 0, 0.2, 0.6363636, 0.8}},
      {"log_sigmoid", {-3.048587, -1.701413, -0.974077, -0.6931472, -0.5759394, -0.1602242, -0.01814993}},
      {"hard_sigmoid", {0, 0.25, 0.4166667, 0.5, 0.5416667, 0.7916667, 1}},
      {"hard_silu", {0, -0.375, -0.2083333, 0, 0.1354167, 1.385417, 4}},
      {"hard_tanh", {-1, -1, -0.5, 0, 0.25, 1, 1}},
      {"hard_shrink", {-3, -1.5, 0, 0, 0, 1.75, 4}},
      {"soft_shrink", {-2.5, -1, 0, 0, 0, 1.25, 3.5}},
      {"tanh_shrink", {-2.004945, -0.5948517, -0.03788286, 0, 0.005081341, 0.8086244, 3.000671}},
      {"squareplus", {0.3027756, 0.5, 0.7807764, 1, 1.132782, 2.203768, 4.236068}},
      {"sparse_plus", {0, 0, 0.0625, 0.25, 0.390625, 1.75, 4}},
      {"sparse_sigmoid", {0, 0, 0.25, 0.5, 0.625, 1, 1}},
  };
  const Tensor x = Tensor::of<float>(Shape{1, 7}, {-3, -1.5, -0.5, 0, 0.25, 1.75, 4});
  for (const auto& [name, values] : expected) {
    SCOPED_TRACE(name);
    expect_near(value(layers::activation(activation_named(name)), {x}), Shape{1, 7}, values);
  }
  expect_near(value(layers::activation(Activation::glu), {x.reshaped(Shape{7}).rows(0, 6).reshaped(Shape{1, 6})}),
              Shape{1, 3}, {-1.5, -0.8432648, -0.4259764});
}

TEST(LayerValues, DenseTakesAnyRank) {
  const auto applied = apply_layer(layers::dense(2, Activation::tanh), {input_pattern(Shape{2, 2, 3})});
  EXPECT_EQ(applied.variables, (Names{"dense/kernel[3,2]", "dense/bias[2]"}));
  expect_near(applied.outputs[0], Shape{2, 2, 2},
              {0.5963736, -0.1549907, 0.6161345, -0.1853332, 0.6351489, -0.2153264, -0.8568177, -0.5325873});
}

TEST(LayerValues, ConvolutionsOfOneToThreeDimensions) {
  expect_near(value(layers::conv1d(2, 2, Activation::none, {.dilations = {2}, .causal = true}),
                    {input_pattern(Shape{1, 5, 2})}),
              Shape{1, 5, 2}, {-0.71875, 0.0625, -0.125, -0.125, 0.84375, 0.3125, -1.15625, 0, -1.4375, 0.375});
  const auto grouped = apply_layer(
      layers::conv2d(4, {2, 3}, Activation::none, {.strides = {2, 2}, .groups = 2, .padding = Padding::same}),
      {input_pattern(Shape{1, 3, 4, 2})});
  EXPECT_EQ(grouped.variables, (Names{"conv2d/kernel[2,3,1,4]", "conv2d/bias[4]"}));
  expect_near(grouped.outputs[0], Shape{1, 2, 2, 4},
              {-0.15625, 0.125, -0.875, -0.09375, -0.34375, -1.65625, -0.4375, 0, -0.90625, 0.65625, -1.09375, 0.21875,
               -1.40625, -0.46875, -0.875, 0.125});
  expect_near(value(layers::conv3d(1, {2, 1, 2}), {input_pattern(Shape{1, 2, 2, 3, 2})}), Shape{1, 1, 2, 2, 1},
              {1.21875, 0.28125, -0.90625, 1.25});
}

TEST(LayerValues, DepthwiseAndSeparableConvolutions) {
  const auto depthwise = apply_layer(layers::depthwise_conv2d({2, 2}, 2), {input_pattern(Shape{1, 3, 3, 2})});
  EXPECT_EQ(depthwise.variables, (Names{"depthwise_conv2d/kernel[2,2,2,2]", "depthwise_conv2d/bias[4]"}));
  expect_near(depthwise.outputs[0], Shape{1, 2, 2, 4},
              {0.84375, 0.71875, 0.15625, -0.5625, 0.09375, 0.625, -0.3125, -0.5625, -0.375, 0.78125, -0.90625, 0.46875,
               0.59375, 0.6875, 0.6875, -1.9375});
  const auto separable =
      apply_layer(layers::separable_conv2d(2, {2, 2}, Activation::none, {.strides = {2, 2}, .padding = Padding::same}),
                  {input_pattern(Shape{1, 3, 3, 2})});
  EXPECT_EQ(separable.variables, (Names{"separable_conv2d/kernel[2,2,2,1]", "separable_conv2d/pointwise[1,1,2,2]",
                                        "separable_conv2d/bias[2]"}));
  expect_near(separable.outputs[0], Shape{1, 2, 2, 2},
              {-1.113281, 0.6054688, 0.5976562, 0.5585938, 0.75, 0.359375, -0.1875, 0.6523438});
  expect_near(value(layers::separable_conv1d(2, 2), {input_pattern(Shape{1, 4, 2})}), Shape{1, 3, 2},
              {-0.4921875, 0.71875, -0.328125, 0.6875, 0.609375, 0.3554688});
}

TEST(LayerValues, TransposedConvolutionsAreAsLargeAsThoseOfKeras) {
  expect_near(value(layers::conv2d_transpose(1, {1, 2}, Activation::none, {.strides = {2, 3}}),
                    {input_pattern(Shape{1, 2, 2, 2})}),
              Shape{1, 4, 6, 1},
              {0.0625,   -1.25, -0.375, -0.25, 0.125, -0.375, -0.375, -0.375, -0.375, -0.375, -0.375, -0.375,
               -0.90625, 0.125, -0.375, 0.5,   -1.25, -0.375, -0.375, -0.375, -0.375, -0.375, -0.375, -0.375});
  expect_near(
      value(layers::conv2d_transpose(1, {3, 3}, Activation::none, {.strides = {2, 2}, .padding = Padding::same}),
            {input_pattern(Shape{1, 2, 2, 2})}),
      Shape{1, 4, 4, 1},
      {0.0625, -1.25, 0.40625, 0.125, 0.1875, 0.09375, -1.59375, -0.375, -1.84375, 0.71875, 1.65625, -1.75, -0.65625,
       -0.84375, 0.6875, 0.40625});
}

TEST(LayerValues, TheAverageOfAMaskIsThatOfItsPositions) {
  Tensor x(DType::f32, Shape{2, 3, 2}), mask(DType::boolean, Shape{2, 3});
  for (int i = 0; i < 12; ++i) x.mutable_data<float>()[i] = static_cast<float>(i + 1);
  for (int i = 0; i < 6; ++i) mask.mutable_data<bool>()[i] = i == 0 || i == 2;
  expect_near(value(layers::global_average_pool(), {x, mask}), Shape{2, 2}, {3, 4, 0, 0});
}

TEST(LayerValues, PoolsAndOtherSizesOfImages) {
  expect_near(value(layers::max_pool1d(2, {.strides = {1}}), {input_pattern(Shape{1, 4, 2})}), Shape{1, 3, 2},
              {0, 1, 0.75, -0.25, 0.75, 0.5});
  expect_near(
      value(layers::average_pool3d({2, 1, 2}, {.padding = Padding::same}), {input_pattern(Shape{1, 3, 1, 3, 1})}),
      Shape{1, 2, 1, 2, 1}, {0, -0.125, -0.375, -0.5});
  expect_near(value(layers::global_max_pool(), {input_pattern(Shape{2, 2, 3, 2})}), Shape{2, 2}, {0.75, 1.25, 1.25, 1});
  expect_near(value(layers::global_average_pool(), {input_pattern(Shape{1, 2, 2, 2, 2})}), Shape{1, 2},
              {-0.1875, 0.1875});
  expect_near(value(layers::up_sampling({2, 1}), {input_pattern(Shape{1, 2, 2, 2})}), Shape{1, 4, 2, 2},
              {-0.75, 1, 0, -1, -0.75, 1, 0, -1, 0.75, -0.25, -1.25, 0.5, 0.75, -0.25, -1.25, 0.5});
  expect_near(value(layers::up_sampling({2, 2}, layers::Interpolation::linear), {input_pattern(Shape{1, 2, 2, 1})}),
              Shape{1, 4, 4, 1},
              {-0.75, -0.3125, 0.5625, 1, -0.5625, -0.296875, 0.234375, 0.5, -0.1875, -0.265625, -0.421875, -0.5, 0,
               -0.25, -0.75, -1});
  expect_near(value(layers::zero_padding({1}, {2}), {input_pattern(Shape{1, 2, 2})}), Shape{1, 5, 2},
              {0, 0, -0.75, 1, 0, -1, 0, 0, 0, 0});
  expect_near(value(layers::cropping({1, 0}, {0, 2}), {input_pattern(Shape{1, 2, 3, 1})}), Shape{1, 1, 1, 1}, {-1});
}

TEST(LayerValues, Normalisations) {
  const std::vector<double> rows = {0.1667259, 0.05939275, -0.6296165, 0.396662,
                                    -1.157493, 0.2800959,  -1.512429,  -0.4861506};
  expect_near(value(layers::layer_norm({.epsilon = 1e-3}), {input_pattern(Shape{2, 4})}), Shape{2, 4}, rows);
  expect_near(value(layers::layer_norm({.epsilon = 1e-3, .dimensions = 2}), {input_pattern(Shape{2, 2, 2})}),
              Shape{2, 2, 2}, rows);
  expect_near(value(layers::group_norm(2, {.epsilon = 1e-3}), {input_pattern(Shape{2, 3, 4})}), Shape{2, 3, 4},
              {0.5891038,   0.129487,   -0.4651533, 0.3497444, -0.8570519, 0.330342,  -1.414642, -0.7896422,
               0.3480778,   0.08931604, -0.2752556, 0.1598467, -1.132058,  0.2752353, -1.392736, -0.6070518,
               0.003529206, 0.4644999,  -0.4286321, 0.1963679, -1.359176,  0.2373824, -1.232052, -0.7677358});
  expect_near(value(layers::instance_norm({.epsilon = 1e-3}), {input_pattern(Shape{1, 3, 2})}), Shape{1, 3, 2},
              {0.5423363, 0.08597066, -0.375, 0.3887941, -1.292336, 0.2752353});
  expect_near(value(layers::rms_norm({.epsilon = 1e-3}), {input_pattern(Shape{2, 4})}), Shape{2, 4},
              {0.7022341, -0.156052, 0, 0.6242081, -0.7199862, 0.03999923, -0.7999846, -0.3199939});
  expect_near(value(layers::unit_norm(), {input_pattern(Shape{2, 4})}), Shape{2, 4},
              {-0.4685213, 0.6246951, 0, -0.6246951, 0.4803845, -0.1601282, -0.8006408, 0.3202563});
  expect_near(value(layers::batch_norm(Activation::none, {.epsilon = 1e-3}), {input_pattern(Shape{3, 2})}), Shape{3, 2},
              {0.5423363, 0.1907547, -0.375, 0.5067298, -1.292336, 0.3882391});
}

TEST(LayerValues, OtherLayersOfElements) {
  const auto prelu = apply_layer(layers::prelu({1}), {input_pattern(Shape{1, 3, 2})});
  EXPECT_EQ(prelu.variables, (Names{"prelu/slope[1,2]"}));
  expect_near(prelu.outputs[0], Shape{1, 3, 2}, {0.5625, 1, 0, 0.125, 0.75, 0.03125});
  expect_near(
      value(layers::dot({.axis_a = 2, .axis_b = 1}), {input_pattern(Shape{1, 2, 3}), input_pattern(Shape{1, 3, 2}, 1)}),
      Shape{1, 2, 2}, {0.75, 0.5, 0.875, 0.6875});
  expect_near(value(layers::dot({.axis_a = 1, .axis_b = 1, .normalize = true}),
                    {input_pattern(Shape{2, 3}), input_pattern(Shape{2, 3}, 1)}),
              Shape{2, 1}, {-0.64, -0.4654746});
  expect_near(value(layers::permute({2, 1}), {input_pattern(Shape{1, 2, 3})}), Shape{1, 3, 2},
              {-0.75, -1, 1, 0.75, 0, -0.25});
  expect_near(value(layers::reshape({-1, 2}), {input_pattern(Shape{1, 2, 3})}), Shape{1, 3, 2},
              {-0.75, 1, 0, -1, 0.75, -0.25});
  expect_near(value(layers::repeat_vector(2), {input_pattern(Shape{1, 3})}), Shape{1, 2, 3},
              {-0.75, 1, 0, -0.75, 1, 0});
}

TEST(LayerValues, JoinsBroadcastAndConcatenate) {
  const Tensor a = Tensor::of<float>(Shape{1, 2}, {1, -2}), b = Tensor::of<float>(Shape{1, 1}, {3}),
               c = Tensor::of<float>(Shape{1, 2}, {0.5, 4});
  expect_near(value(layers::add(), {a, b, c}), Shape{1, 2}, {4.5, 5});
  expect_near(value(layers::multiply(), {a, b, c}), Shape{1, 2}, {1.5, -24});
  expect_near(value(layers::average(), {a, c}), Shape{1, 2}, {0.75, 1});
  expect_near(value(layers::maximum(), {a, c}), Shape{1, 2}, {1, 4});
  expect_near(value(layers::minimum(), {a, c}), Shape{1, 2}, {0.5, -2});
  expect_near(value(layers::subtract(), {a, c}), Shape{1, 2}, {0.5, -6});
  expect_near(value(layers::concatenate(), {a, b, c}), Shape{1, 5}, {1, -2, 3, 0.5, 4});
}

TEST(LayerValues, TimeDistributedAppliesALayerToEachStep) {
  const Tensor x = input_pattern(Shape{2, 3, 2});
  const auto each = apply_layer(layers::time_distributed(layers::dense(2)), {x});
  EXPECT_EQ(each.variables, (Names{"time_distributed/kernel[2,2]", "time_distributed/bias[2]"}));
  const Tensor rows = value(layers::dense(2), {x.reshaped(Shape{6, 2})});
  expect_near(each.outputs[0], Shape{2, 3, 2}, {rows.values<float>().begin(), rows.values<float>().end()}, 0);
}

TEST(LayerValues, EmbeddingsTakeRowsOfIntegers) {
  const Tensor ids = Tensor::of<std::int32_t>(Shape{2, 2}, {3, 0, 1, 3});
  const auto applied = apply_layer(layers::embedding(4, 3, {.mask_zero = true}), {ids});
  EXPECT_EQ(applied.variables, (Names{"embedding/table[4,3]"}));
  const Tensor table = testing::weight_pattern(Shape{4, 3}, 0);
  std::vector<double> rows;
  for (const std::size_t id : {3, 0, 1, 3})
    for (std::size_t i = 0; i < 3; ++i) rows.push_back(table.values<float>()[3 * id + i]);
  expect_near(applied.outputs[0], Shape{2, 2, 3}, rows, 0);
  EXPECT_EQ(applied.outputs[1].to_string(), "bool[2,2] = true false true true");
}

}  // namespace
}  // namespace troupe
