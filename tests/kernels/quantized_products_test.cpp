// QuantizedConv, QuantizedMatMul and DynamicQuantizedMatMul against exact sums and float64, by the library and by plain
// loops.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/kernels/common/conv_geometry.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

Tensor random_bytes(DType dtype, const Shape& shape, std::mt19937_64& engine) {
  Tensor t(dtype, shape);
  for (std::int64_t i = 0; i < t.num_elements(); ++i) t.mutable_raw()[i] = static_cast<std::byte>(engine());
  return t;
}
Tensor random_reals(const Shape& shape, double low, double high, std::mt19937_64& engine) {
  Tensor t(DType::f32, shape);
  for (float& x : t.mutable_values<float>())
    x = static_cast<float>(std::uniform_real_distribution<double>(low, high)(engine));
  return t;
}

// Results in steps of y, in float64; zero points are added.
void expect_rounded(const Tensor& y, const std::vector<double>& exact, std::int64_t zero, const std::string& what) {
  const auto actual = doubles(y);
  ASSERT_EQ(actual.size(), exact.size()) << what;
  double largest = 0;
  for (const double e : exact) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (y.dtype() == DType::f32) {
      ASSERT_NEAR(actual[i], exact[i], 1e-6 * largest) << what << ' ' << i;
      continue;
    }
    const double low = y.dtype() == DType::i8 ? -128 : 0, high = low + 255;
    const double bounded = std::clamp(exact[i] + static_cast<double>(zero), low, high);
    ASSERT_LE(std::abs(actual[i] - bounded), 0.5 + 1e-4) << what << ' ' << i;
  }
}

class ByteProducts : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!kernel_target().on_host()) GTEST_SKIP() << "kernels of the CPU";
  }
  // The value of a node, by plain loops if the parameter says so.
  Tensor value(Graph& graph, const Output& y, int threads = 1) {
    if (GetParam()) graph.set_attribute(y.source(), "_plain_sums", true);
    GraphEvaluator evaluator(threads);
    return evaluator.run(y);
  }
  std::mt19937_64 engine_{11};
};

TEST_P(ByteProducts, OfMatricesAreExactSumsScaled) {
  for (const DType a_type : {DType::u8, DType::i8})
    for (const DType y_type : {DType::f32, DType::u8, DType::i8})
      for (const std::int64_t zero : {0, 7})
        for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
                 {1, 1, 1}, {3, 5, 7}, {70, 130, 33}, {5, 384, 64}, {4, 0, 2}, {0, 3, 2}})
          for (const bool channels : {false, true}) {
            const bool relu = channels == (zero > 0);
            Graph g;
            const Tensor a = random_bytes(a_type, {m, k}, engine_), b = random_bytes(DType::i8, {k, n}, engine_),
                         scale = random_reals(channels ? Shape{n} : Shape{}, 1e-3, 2e-3, engine_),
                         bias = random_reals({n}, -5, 5, engine_);
            const double y_scale = y_type == DType::f32 ? 1 : 0.5;
            const Output y = quantized_matmul(constant(g, a), {0.25, zero}, constant(g, b), constant(g, scale),
                                              constant(g, bias), {.dtype = y_type, .y = {y_scale, zero}, .relu = relu});
            std::vector<double> wanted;
            const auto as = doubles(a), bs = doubles(b), ss = doubles(scale), cs = doubles(bias);
            for (std::int64_t i = 0; i < m; ++i)
              for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t t = 0; t < k; ++t)
                  sum += (as[static_cast<std::size_t>(i * k + t)] - static_cast<double>(zero)) *
                         bs[static_cast<std::size_t>(t * n + j)];
                sum = sum * 0.25 * ss[static_cast<std::size_t>(channels ? j : 0)] + cs[static_cast<std::size_t>(j)];
                wanted.push_back((relu ? std::max(sum, 0.0) : sum) / y_scale);
              }
            expect_rounded(value(g, y), wanted, zero,
                           fmt::format("{} {}x{}x{} {} zero {}", name(a_type), m, k, n, name(y_type), zero));
          }
}

// Sums of bytes are exact: f32 results with scales of powers of 2 have no rounding at all.
TEST_P(ByteProducts, OfWholeNumbersHaveNoRounding) {
  Graph g;
  const Tensor a = random_bytes(DType::u8, {9, 515}, engine_), b = random_bytes(DType::i8, {515, 40}, engine_);
  const Output y = quantized_matmul(constant(g, a), {1, 3}, constant(g, b), constant(g, 1.0f),
                                    constant(g, Tensor::zeros(DType::f32, {40})));
  const Output sums = matmul_integer(constant(g, a), constant(g, b), constant(g, std::uint8_t{3}));
  const Tensor actual = value(g, y), wanted = GraphEvaluator().run(cast(sums, DType::f32));
  EXPECT_TRUE(bitwise_equal(actual, wanted));
}

struct Windows {
  Shape x, filter;
  ConvOptions options;
};
std::vector<Windows> windows() {
  return {{{2, 9, 8, 5}, {3, 3, 5, 6}, {}},
          {{3, 8, 7, 16}, {1, 1, 16, 33}, {}},
          {{1, 11, 12, 3}, {7, 7, 3, 16}, {.strides = {2, 2}}},
          {{2, 7, 6, 8}, {3, 3, 1, 8}, {.groups = 8}},
          {{2, 7, 6, 8}, {3, 3, 2, 12}, {.strides = {2, 1}, .groups = 4}},
          {{2, 9, 9, 4}, {3, 3, 4, 8}, {.dilations = {2, 2}, .padding = Padding::valid}},
          {{0, 9, 9, 4}, {3, 3, 4, 8}, {}}};
}

TEST_P(ByteProducts, OfImagesAreExactSumsScaled) {
  for (const Windows& w : windows())
    for (const DType x_type : {DType::u8, DType::i8})
      for (const DType y_type : {DType::f32, DType::u8, DType::i8})
        for (const std::int64_t zero : {0, 9})
          for (const bool residual : {false, true}) {
            if (residual && y_type == DType::f32) continue;
            const bool relu = residual != (zero > 0);
            Graph g;
            const std::int64_t out = w.filter[-1];
            const Tensor x = random_bytes(x_type, w.x, engine_), filter = random_bytes(DType::i8, w.filter, engine_),
                         scale = random_reals({out}, 1e-3, 2e-3, engine_), bias = random_reals({out}, -5, 5, engine_);
            const double y_scale = y_type == DType::f32 ? 1 : 0.5;
            QuantizedProductOptions options{.dtype = y_type, .y = {y_scale, zero}, .relu = relu};
            Output y = quantized_conv2d(constant(g, x), {0.25, zero}, constant(g, filter), constant(g, scale),
                                        constant(g, bias), w.options, options);
            const ConvGeometry geometry = conv_geometry(w.x, w.filter, conv_attributes(y.source().attributes));
            const Tensor more = random_bytes(DType::u8, geometry.result_shape(), engine_);
            if (residual)
              y = quantized_conv2d(constant(g, x), {0.25, zero}, constant(g, filter), constant(g, scale),
                                   constant(g, bias), w.options, options, {constant(g, more), {0.75, 100}});
            std::vector<double> wanted(static_cast<std::size_t>(geometry.batch * geometry.result_size()));
            const auto xs = doubles(x), fs = doubles(filter), ss = doubles(scale), cs = doubles(bias),
                       rs = doubles(more);
            // Convolved in f64: padding is the zero point, 0 after its subtraction.
            Graph f;
            Tensor real(DType::f64, w.x);
            for (std::size_t i = 0; i < xs.size(); ++i)
              real.mutable_data<double>()[i] = xs[i] - static_cast<double>(zero);
            const Tensor sums =
                GraphEvaluator().run(conv2d(constant(f, real), cast(constant(f, filter), DType::f64), w.options));
            for (std::size_t i = 0; i < wanted.size(); ++i) {
              const std::size_t c = i % static_cast<std::size_t>(out);
              double v = sums.data<double>()[i] * 0.25 * ss[c] + cs[c];
              if (residual) v += (rs[i] - 100) * 0.75;
              wanted[i] = (relu ? std::max(v, 0.0) : v) / y_scale;
            }
            const int threads = y_type == DType::u8 ? 2 : 1;
            expect_rounded(value(g, y, threads), wanted, zero,
                           fmt::format("{} {} {} zero {} residual {}", w.x.to_string(), name(x_type), name(y_type),
                                       zero, residual));
          }
}

TEST_P(ByteProducts, OfARunsOwnRangeAreCloseToFloats) {
  for (const bool relu : {false, true})
    for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{1, 4, 3}, {37, 200, 48}, {0, 3, 2}}) {
      Graph g;
      const Tensor a = random_reals({m, k}, -1, 3, engine_), b = random_bytes(DType::i8, {k, n}, engine_),
                   scale = random_reals({n}, 1e-3, 2e-3, engine_), bias = random_reals({n}, -1, 1, engine_);
      const Tensor y = value(g, dynamic_quantized_matmul(constant(g, a), constant(g, b), constant(g, scale),
                                                         constant(g, bias), {.relu = relu}));
      // The same by the ops of ONNX.
      const DynamicallyQuantized q = m == 0 ? DynamicallyQuantized{} : dynamic_quantize_linear(constant(g, a));
      if (m == 0) {
        EXPECT_EQ(y.num_elements(), 0);
        continue;
      }
      Output wanted = cast(matmul_integer(q.y, constant(g, b), q.zero_point), DType::f64) *
                          (cast(q.scale, DType::f64) * cast(constant(g, scale), DType::f64)) +
                      cast(constant(g, bias), DType::f64);
      if (relu) wanted = troupe::relu(wanted);
      expect_rounded(y, doubles(GraphEvaluator().run(wanted)), 0, fmt::format("{}x{}x{}", m, k, n));
    }
}

TEST_P(ByteProducts, RefuseScalesAndShapesThatDoNotFit) {
  Graph g;
  const Output a = constant(g, Tensor::zeros(DType::u8, {2, 3})), b = constant(g, Tensor::zeros(DType::i8, {3, 4})),
               bias = constant(g, Tensor::zeros(DType::f32, {4}));
  const auto refused = [&](Output scale, ByteSteps steps) {
    return message_of(Code::invalid_argument, [&] { value(g, quantized_matmul(a, steps, b, scale, bias)); });
  };
  EXPECT_NE(refused(constant(g, 1.0f), {.scale = 0}).find("attribute 'a_scale' is 0, not above 0"), std::string::npos);
  EXPECT_NE(refused(constant(g, {1.0f, 2.0f}), {}).find("the size of the weights' scale and the channels"),
            std::string::npos);
  EXPECT_NE(refused(constant(g, 0.0f), {}).find("the scale of the weights must be above 0, but element 0 is 0"),
            std::string::npos);
  const Output image = constant(g, Tensor::zeros(DType::u8, {1, 4, 4, 3})),
               filter = constant(g, Tensor::zeros(DType::i8, {1, 1, 3, 4}));
  EXPECT_NE(message_of(Code::invalid_argument,
                       [&] {
                         quantized_conv2d(image, {}, filter, constant(g, 1.0f), bias, {}, {}, {image, {}});
                       })
                .find("a residual needs a result of 8 bits"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Loops, ByteProducts, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Plain" : "Library"; });

}  // namespace
}  // namespace troupe
