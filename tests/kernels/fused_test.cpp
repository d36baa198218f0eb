// Fused ops have the bits of the ops they replace; on a GPU they may be nearer to the true value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/random_tensors.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;

constexpr std::pair<const char*, const char*> kActivations[] = {
    {"none", nullptr}, {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}};

Attributes with(Attributes attributes, const char* activation) {
  attributes.set("activation", std::string(activation));
  return attributes;
}

double largest(const Tensor& t) {
  double out = 0;
  for (double v : doubles(t)) out = std::max(out, std::fabs(v));
  return out;
}

// `y` is what `op`, BiasAdd and the activation make one after the other.
bool is_that_of_parts(const Tensor& y, const KernelRegistry& registry, const std::string& op,
                      const std::vector<Tensor>& inputs, const Attributes& attributes, const char* activation) {
  const auto device = test_device();
  const DType dtype = inputs[0].dtype();
  const auto run = [&](const std::string& name, std::vector<Tensor> in, Attributes attrs) {
    return run_kernel(registry, *device, {name, dtype, std::move(in), std::move(attrs)})[0];
  };
  const Tensor product = run(op, {inputs[0], inputs[1]}, attributes), sum = run("BiasAdd", {product, inputs[2]}, {});
  const Tensor apart = activation ? run(activation, {sum}, {}) : sum;
  if (kernel_target().on_host()) return bitwise_equal(y, apart);
  // The library adds the bias before it rounds, and may choose another order of terms for that. No activation makes
  // differences larger.
  const double rounding = dtype == DType::f16    ? 0x1p-11
                          : dtype == DType::bf16 ? 0x1p-8
                          : dtype == DType::f32  ? 1e-5
                                                 : 1e-14;
  const double bound = 3 * rounding * (largest(product) + largest(sum) + 1);
  const auto got = doubles(y), wanted = doubles(apart);
  return y.shape() == apart.shape() &&
         std::ranges::equal(got, wanted, [&](double a, double b) { return std::fabs(a - b) <= bound; });
}

TEST(FusedMatMul, HasTheBitsOfMatMulBiasAddAndActivation) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(21);
  const std::vector<std::array<std::int64_t, 3>> sizes{{1, 1, 1},      {32, 784, 128}, {128, 32, 10},
                                                       {5, 0, 3},      {0, 4, 3},      {3, 4, 0},
                                                       {700, 65, 301}, {301, 65, 700}, {70, 150, 1100}};
  for (const auto& [m, k, n] : sizes)
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (int mask = 0; mask < 4; ++mask)
        for (int i = 0; i < static_cast<int>(std::size(kActivations)); ++i) {
          if (m * k * n > 1'000'000 && i != mask)
            continue;  // of a large product each activation, each transpose, not each with each
          const auto& [name, op] = kActivations[i];
          const bool ta = mask & 1, tb = mask & 2;
          const std::vector<Tensor> inputs{random_tensor(dtype, ta ? Shape{k, m} : Shape{m, k}, engine),
                                           random_tensor(dtype, tb ? Shape{n, k} : Shape{k, n}, engine),
                                           random_tensor(dtype, {n}, engine)};
          const Attributes flags{{"transpose_a", ta}, {"transpose_b", tb}};
          const Tensor y = run_every_way(registry, {"FusedMatMul", dtype, inputs, with(flags, name)})[0];
          ASSERT_TRUE(is_that_of_parts(y, registry, "MatMul", inputs, flags, op))
              << m << "x" << k << "x" << n << " " << mask << " " << name << " " << troupe::name(dtype);
        }
}

TEST(FusedMatMul, OfBatchesHasTheBitsOfItsParts) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(23);
  const Attributes flags{{"transpose_a", false}, {"transpose_b", false}};
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{3, 4, 5}, {5, 6}}, {{3, 1, 4, 5}, {2, 5, 6}}, {{5}, {2, 5, 6}}})
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const auto& [name, op] : kActivations) {
        const std::vector<Tensor> inputs{random_tensor(dtype, a, engine), random_tensor(dtype, b, engine),
                                         random_tensor(dtype, {6}, engine)};
        const Tensor y = run_every_way(registry, {"FusedMatMul", dtype, inputs, with(flags, name)})[0];
        ASSERT_TRUE(is_that_of_parts(y, registry, "MatMul", inputs, flags, op))
            << a.to_string() << " x " << b.to_string() << " " << name << " " << troupe::name(dtype);
      }
}

TEST(FusedConv, HasTheBitsOfConvBiasAddAndActivation) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(22);
  const std::vector<std::pair<Shape, Shape>> sizes{
      {{32, 12, 12, 1}, {3, 3, 1, 32}}, {{9, 13, 13, 32}, {3, 3, 32, 64}}, {{2, 5, 4, 3}, {2, 3, 3, 7}}};
  for (const auto& [x, filter] : sizes)
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const char* padding : {"SAME", "VALID"})
        for (const auto& [name, op] : kActivations) {
          const std::vector<Tensor> inputs{random_tensor(dtype, x, engine), random_tensor(dtype, filter, engine),
                                           random_tensor(dtype, {filter[3]}, engine)};
          const Attributes window{{"strides", std::vector<std::int64_t>{1, 2}}, {"padding", std::string(padding)}};
          const Tensor y = run_every_way(registry, {"FusedConv", dtype, inputs, with(window, name)})[0];
          ASSERT_TRUE(is_that_of_parts(y, registry, "Conv", inputs, window, op))
              << x.to_string() << " " << name << " " << troupe::name(dtype);
        }
}

// As Relu does: a gradient that is none must not look like one.
TEST(FusedActivations, KeepNaN) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [name, op] : kActivations) {
    const Tensor bias = Tensor::of<float>({2}, {-1, -1});
    const Tensor product = run_kernel(registry, *device,
                                      {"FusedMatMul",
                                       DType::f32,
                                       {Tensor::of<float>({1, 1}, {1}), Tensor::of<float>({1, 2}, {nan, -3}), bias},
                                       with({{"transpose_a", false}, {"transpose_b", false}}, name)})[0];
    EXPECT_TRUE(std::isnan(product.data<float>()[0])) << name;
    EXPECT_FALSE(std::isnan(product.data<float>()[1])) << name;
    const Attributes window{{"strides", std::vector<std::int64_t>{1, 1}}, {"padding", std::string("SAME")}};
    const Tensor image = run_kernel(registry, *device,
                                    {"FusedConv",
                                     DType::f32,
                                     {Tensor::of<float>({1, 1, 4, 1}, {nan, 1, 1, 1}),
                                      Tensor::of<float>({3, 3, 1, 2}, std::vector<float>(18, -1)), bias},
                                     with(window, name)})[0];
    EXPECT_TRUE(std::isnan(image.data<float>()[0])) << name;
    EXPECT_TRUE(std::isnan(image.data<float>()[2])) << name;
    EXPECT_FALSE(std::isnan(image.data<float>()[4])) << name;
  }
}

TEST(FusedMatMul, RefusesWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](Shape bias, const char* activation) {
    return message_of(Code::invalid_argument, [&] {
      run_kernel(
          registry, *device,
          {"FusedMatMul",
           DType::f32,
           {Tensor::zeros(DType::f32, {2, 3}), Tensor::zeros(DType::f32, {3, 4}), Tensor::zeros(DType::f32, bias)},
           with({{"transpose_a", false}, {"transpose_b", false}}, activation)});
    });
  };
  EXPECT_EQ(run({3}, "relu"), "FusedMatMul: bias must be f32[4], but is f32[3]");
  EXPECT_EQ(run({4}, "gelu"), "attribute 'activation' must be none, relu, sigmoid or tanh, not 'gelu'");
}

}  // namespace
}  // namespace troupe
