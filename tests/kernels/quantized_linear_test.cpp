// MatMulInteger and QLinearMatMul.
#include <gtest/gtest.h>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

class QuantizedProducts : public ::testing::Test {
 protected:
  Tensor bytes(DType dtype, const Shape& shape) {
    Tensor t(dtype, shape);
    for (std::int64_t i = 0; i < t.num_elements(); ++i) {
      const auto value = static_cast<std::uint8_t>(engine_());
      if (dtype == DType::i8)
        t.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(value);
      else
        t.mutable_data<std::uint8_t>()[i] = value;
    }
    return t;
  }
  Tensor integers(const Tensor& a, const Tensor& b, const Tensor& a_zero, const Tensor& b_zero) {
    return run_every_way(registry_, {.op = "MatMulInteger",
                                     .dtype = a.dtype(),
                                     .inputs = {a, b, a_zero, b_zero},
                                     .attributes = {},
                                     .output_types = {DType::i32}})[0];
  }
  void SetUp() override {
    if (!kernel_target().on_host()) GTEST_SKIP() << "kernels of the CPU";
  }
  std::mt19937_64 engine_{3};
  const KernelRegistry registry_ = all_kernels();
};

TEST_F(QuantizedProducts, OfIntegersAreExact) {
  for (DType left : {DType::i8, DType::u8})
    for (DType right : {DType::i8, DType::u8})
      for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
               {1, 1, 1}, {3, 5, 7}, {70, 1000, 33}, {2, 258, 3}, {2, 259, 3}, {4, 0, 2}, {0, 3, 2}})
        for (const bool rows : {false, true}) {
          const Tensor a = bytes(left, {m, k}), b = bytes(right, {k, n});
          const Tensor a_zero = bytes(left, rows ? Shape{m} : Shape{}),
                       b_zero = bytes(right, rows ? Shape{n} : Shape{});
          const Tensor c = integers(a, b, a_zero, b_zero);
          ASSERT_EQ(c.shape(), (Shape{m, n}));
          const auto x = doubles(a), y = doubles(b), p = doubles(a_zero), q = doubles(b_zero);
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (std::int64_t t = 0; t < k; ++t)
                sum += (x[static_cast<std::size_t>(i * k + t)] - p[static_cast<std::size_t>(rows ? i : 0)]) *
                       (y[static_cast<std::size_t>(t * n + j)] - q[static_cast<std::size_t>(rows ? j : 0)]);
              ASSERT_EQ(c.data<std::int32_t>()[i * n + j], sum) << m << 'x' << k << 'x' << n << ' ' << i << ' ' << j;
            }
        }
}

// Values from NumPy.
TEST_F(QuantizedProducts, OfBatchesTakeZeroPointsOfEachRow) {
  const Tensor a = Tensor::of<std::uint8_t>({2, 1, 2}, {1, 2, 3, 4}),
               b = Tensor::of<std::int8_t>({2, 2}, {5, -6, 7, 8});
  const Tensor a_zero = Tensor::of<std::uint8_t>({2, 1, 1}, {1, 3}), b_zero = Tensor::of<std::int8_t>({1, 2}, {-1, 1});
  EXPECT_TRUE(bitwise_equal(integers(a, b, a_zero, b_zero), Tensor::of<std::int32_t>({2, 1, 2}, {8, 7, 8, 7})));
  EXPECT_TRUE(bitwise_equal(integers(a, b, Tensor::scalar<std::uint8_t>(0), Tensor::scalar<std::int8_t>(0)),
                            Tensor::of<std::int32_t>({2, 1, 2}, {19, 10, 43, 14})));
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run_kernel(registry_, *test_device(),
                                    {.op = "MatMulInteger",
                                     .dtype = DType::u8,
                                     .inputs = {a, b, Tensor::vector<std::uint8_t>({1, 2, 3}), b_zero},
                                     .attributes = {},
                                     .output_types = {DType::i32}});
                       }),
            "a_zero_point must be a scalar, [1] or [2,1,1], but is [3]");
}

// Values of onnx.reference 1.16.
TEST_F(QuantizedProducts, AreRoundedToNearestEvenAndSaturated) {
  Graph graph;
  const auto u8s = [&](Shape shape, std::initializer_list<std::uint8_t> v) {
    return constant(graph, Tensor::of<std::uint8_t>(shape, v));
  };
  const QuantizedTensor a{u8s({2, 3}, {208, 236, 0, 3, 214, 255}), constant(graph, 0.0066f), u8s({}, {113})};
  const QuantizedTensor b{u8s({3, 2}, {152, 51, 60, 26, 0, 127}), constant(graph, 0.00705f), u8s({}, {114})};
  const Output y = qlinear_matmul(a, b, constant(graph, 0.0107f), u8s({}, {118}));
  const Tensor got = GraphEvaluator().run(y);
  EXPECT_TRUE(bitwise_equal(got, Tensor::of<std::uint8_t>({2, 2}, {161, 39, 6, 118}))) << got.to_string();
  const QuantizedTensor half{u8s({1, 1}, {1}), constant(graph, 0.5f), u8s({}, {0})};
  const QuantizedTensor odd{u8s({1, 4}, {1, 3, 5, 255}), constant(graph, {1.0f, 1.0f, 1.0f, 100.0f}), u8s({}, {0})};
  const Output rounded = qlinear_matmul(half, odd, constant(graph, 1.0f), constant(graph, std::int8_t{-1}));
  EXPECT_TRUE(bitwise_equal(GraphEvaluator().run(rounded), Tensor::of<std::int8_t>({1, 4}, {-1, 1, 1, 127})));
}

}  // namespace
}  // namespace troupe
