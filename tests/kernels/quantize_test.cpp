// QuantizeLinear, DequantizeLinear and what is made of them.
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::testing {
namespace {

class QuantizeTest : public KernelTest {
 protected:
  void SetUp() override {
    if (!kernel_target().on_host()) GTEST_SKIP() << "these kernels are the CPU's";
  }
  static Attributes along(std::int64_t axis) { return {{"axis", axis}}; }
  Tensor quantized(const Tensor& x, const Tensor& scale, const Tensor& zero, std::int64_t axis = 1) {
    return run({.op = "QuantizeLinear",
                .dtype = x.dtype(),
                .inputs = {x, scale, zero},
                .attributes = along(axis),
                .output_types = {zero.dtype()}})[0];
  }
  Tensor dequantized(const Tensor& x, const Tensor& scale, const Tensor& zero, std::int64_t axis = 1) {
    return run_as(scale.dtype(), "DequantizeLinear", {x, scale, zero}, along(axis));
  }
};

TEST_F(QuantizeTest, RoundsHalvesToEvenAndSaturates) {
  const Tensor x = Tensor::vector<float>({0, 1, 3, 5, -1, 254, 1000, -1000, std::nanf(""), 1e30f, -1e30f});
  EXPECT_EQ(doubles(quantized(x, Tensor::scalar(2.0f), Tensor::scalar(std::uint8_t{128}))),
            (std::vector<double>{128, 128, 130, 130, 128, 255, 255, 0, 128, 255, 0}));
  EXPECT_EQ(doubles(quantized(x, Tensor::scalar(2.0f), Tensor::scalar(std::int8_t{-1}))),
            (std::vector<double>{-1, -1, 1, 1, -1, 126, 127, -128, -1, 127, -128}));
  EXPECT_EQ(doubles(quantized(x, Tensor::vector<float>({0.5f}), Tensor::vector<std::uint16_t>({7}))),
            (std::vector<double>{7, 9, 13, 17, 5, 515, 2007, 0, 7, 65535, 0}));
  EXPECT_EQ(doubles(quantized(Tensor::vector<Half>({Half(1), Half(-4)}), Tensor::scalar(Half(0.5f)),
                              Tensor::scalar(std::int16_t{3}))),
            (std::vector<double>{5, -5}));
}

TEST_F(QuantizeTest, ScalesGoAlongAnyAxis) {
  const Tensor scale = Tensor::vector<float>({1, 2, 4}), zero = Tensor::vector<std::int8_t>({0, 10, -3});
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<std::int64_t> dims{600, 5, 7};
    dims[static_cast<std::size_t>(axis)] = 3;
    const Tensor x = random<float>(Shape(dims), -90, 90);
    const Tensor q = quantized(x, scale, zero, axis), back = dequantized(q, scale, zero, axis - 3);
    std::int64_t inner = 1;
    for (int d = axis + 1; d < 3; ++d) inner *= dims[static_cast<std::size_t>(d)];
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const std::int64_t c = i / inner % 3;
      const double step = scale.data<float>()[c], start = zero.data<std::int8_t>()[c];
      const double want = std::clamp(std::nearbyint(x.data<float>()[i] / step) + start, -128.0, 127.0);
      ASSERT_EQ(q.data<std::int8_t>()[i], want) << axis << " " << i;
      ASSERT_EQ(back.data<float>()[i], (want - start) * step) << axis << " " << i;
    }
  }
}

TEST_F(QuantizeTest, DequantizesEveryInteger) {
  EXPECT_EQ(doubles(dequantized(Tensor::vector<std::int32_t>({-3, 100000}), Tensor::scalar(0.5f), Tensor::scalar(1))),
            (std::vector<double>{-2, 49999.5}));
  EXPECT_EQ(doubles(dequantized(Tensor::vector<std::uint8_t>({0, 255}), Tensor::scalar(BFloat16(2)),
                                Tensor::scalar(std::uint8_t{128}))),
            (std::vector<double>{-256, 254}));
  EXPECT_EQ(quantized(Tensor(DType::f32, Shape{0, 3}), Tensor::vector<float>({1, 2, 3}),
                      Tensor::vector<std::int8_t>({0, 0, 0}))
                .shape(),
            (Shape{0, 3}));
}

TEST_F(QuantizeTest, ShapesThatDoNotFitAreErrors) {
  const Tensor x(DType::f32, Shape{2, 3});
  const auto message = [&](const Tensor& scale, const Tensor& zero, std::int64_t axis) -> std::string {
    try {
      quantized(x, scale, zero, axis);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const Tensor two = Tensor::vector<float>({1, 1}), zeros = Tensor::vector<std::int8_t>({0, 0});
  EXPECT_NE(message(two, zeros, 1).find("3 elements of axis 1"), std::string::npos);
  EXPECT_NE(message(two, zeros, 2).find("'axis' is 2"), std::string::npos);
  EXPECT_NE(message(two, Tensor::scalar(std::int8_t{0}), 0).find("one shape"), std::string::npos);
  EXPECT_EQ(message(two, zeros, 0), "");
}

TEST_F(QuantizeTest, DynamicRangesIncludeZero) {
  Graph graph;
  const auto of = [&](std::initializer_list<float> values) {
    const DynamicallyQuantized out = dynamic_quantize_linear(constant<float>(graph, values));
    std::vector<double> found{doubles(GraphEvaluator().run(out.scale))[0],
                              doubles(GraphEvaluator().run(out.zero_point))[0]};
    for (const double q : doubles(GraphEvaluator().run(out.y))) found.push_back(q);
    return found;
  };
  // Of onnxruntime.
  const std::vector<double> first = of({0, 2, -3, -2.5f, 1.34f, 0.5f});
  EXPECT_NEAR(first[0], 0.019607844, 1e-9);
  EXPECT_EQ(std::vector<double>(first.begin() + 1, first.end()), (std::vector<double>{153, 153, 255, 0, 26, 221, 179}));
  EXPECT_EQ(of({5.1f, 2.55f})[1], 0);
  EXPECT_EQ(of({-5.1f})[1], 255);
  EXPECT_EQ(of({0, 0}), (std::vector<double>{1, 0, 0, 0}));
}

TEST_F(QuantizeTest, FakeQuantizationPassesGradientsStraightThroughUnlessItClips) {
  Graph graph;
  const Output x = constant<double>(graph, {0.3, -0.26, 9, -9, 1.24}), scale = constant(graph, 0.5),
               zero = constant(graph, 1.0);
  const Output y = fake_quantize(x, scale, zero, {.lowest = -4, .highest = 3});
  EXPECT_EQ(doubles(GraphEvaluator().run(y)), (std::vector<double>{0.5, -0.5, 1, -2.5, 1}));
  const std::vector<Gradient> found = gradients(Outputs{sum(y)}, Outputs{x, scale});
  EXPECT_EQ(doubles(GraphEvaluator().run(dense(found[0], x))), (std::vector<double>{1, 1, 0, 0, 1}));
  // round(v) - v inside, the limit less the zero point outside.
  EXPECT_NEAR(doubles(GraphEvaluator().run(dense(found[1], scale)))[0], (1 - 0.6) + (-1 + 0.52) + 2 - 5 + (2 - 2.48),
              1e-12);
  const Output w = constant(graph, Tensor::of<float>(Shape{2, 2, 1}, {1, 2, 3, 4}));
  const Output rows = fake_quantize(w, constant<float>(graph, {1, 3}), constant<float>(graph, {0, 0}), {.axis = 1});
  EXPECT_EQ(doubles(GraphEvaluator().run(rows)), (std::vector<double>{1, 3, 3, 3}));
}

}  // namespace
}  // namespace troupe::testing
