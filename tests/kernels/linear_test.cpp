// MatMul, BiasAdd and BiasAddGrad, the conversions of 16-bit arrays, and scratch memory.
#include <gtest/gtest.h>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/devices/cpu/openmp.hpp>
#include <troupe/kernels/cpu/linear.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

Attributes flags(bool ta, bool tb) { return {{"transpose_a", ta}, {"transpose_b", tb}}; }

Sums matmul_reference(const Tensor& a, const Tensor& b, bool ta, bool tb) {
  const auto x = doubles(a), y = doubles(b);
  const std::int64_t m = a.shape()[ta ? 1 : 0], k = a.shape()[ta ? 0 : 1], n = b.shape()[tb ? 0 : 1];
  Sums out(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p)
        out.add(i * n + j, x[static_cast<std::size_t>(ta ? p * m + i : i * k + p)] *
                               y[static_cast<std::size_t>(tb ? j * k + p : p * n + j)]);
  return out;
}

TEST(MatMul, EqualsTheFloat64ProductForAnyShapeAndTranspose) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(1);
  const std::vector<std::array<std::int64_t, 3>> sizes{{1, 1, 1},     {3, 5, 7},      {1, 33, 2},    {64, 1, 1},
                                                       {17, 129, 31}, {2, 1, 300},    {1, 1000, 1},  {1, 501, 40},
                                                       {40, 501, 1},  {32, 784, 128}, {784, 32, 10}, {301, 257, 65}};
  for (const auto& [m, k, n] : sizes)
    for (DType dtype : kFloats)
      for (int mask = 0; mask < 4; ++mask) {
        const bool ta = mask & 1, tb = mask & 2;
        const Tensor a = random_tensor(dtype, ta ? Shape{k, m} : Shape{m, k}, engine);
        const Tensor b = random_tensor(dtype, tb ? Shape{n, k} : Shape{k, n}, engine);
        const Tensor c = run_every_way(registry, {"MatMul", dtype, {a, b}, flags(ta, tb)})[0];
        ASSERT_EQ(c.shape(), (Shape{m, n}))
            << m << 'x' << k << 'x' << n << ' ' << name(dtype) << ' ' << ta << ' ' << tb;
        expect_close(c, matmul_reference(a, b, ta, tb), fmt::format("{}x{}x{} {} {}", m, k, n, ta, tb));
      }
}

// Big enough for several parts in both directions.
TEST(MatMul, SplitsRowsOrColumnsWithoutChangingBits) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(2);
  const std::vector<std::array<std::int64_t, 3>> sizes{{1000, 300, 250}, {130, 700, 900}, {130, 300, 1100}};
  for (const auto& [m, k, n] : sizes)
    for (DType dtype : {DType::f32, DType::bf16})
      for (int mask = 0; mask < 4; ++mask) {
        const bool ta = mask & 1, tb = mask & 2;
        const Tensor a = random_tensor(dtype, ta ? Shape{k, m} : Shape{m, k}, engine);
        const Tensor b = random_tensor(dtype, tb ? Shape{n, k} : Shape{k, n}, engine);
        run_every_way(registry, {"MatMul", dtype, {a, b}, flags(ta, tb)});
      }
}

TEST(MatMul, GivesTheSameBitsOnAThreadThatLetsOpenMpUseMany) {
  std::mt19937_64 engine(3);
  const auto device = test_device();
  const int before = omp_get_max_threads();
  const std::vector<std::array<std::int64_t, 3>> sizes{{200, 500, 300}, {8, 200000, 8}};  // the other splits its sums
  for (const auto& [m, k, n] : sizes) {
    const Tensor a = random_tensor(DType::f32, {m, k}, engine), b = random_tensor(DType::f32, {k, n}, engine);
    Tensor one(DType::f32, {m, n}), many(DType::f32, {m, n});
    omp_set_num_threads(1);
    matmul(device->parallelism(), a, b, false, false, one);
    omp_set_num_threads(4);
    matmul(device->parallelism(), a, b, false, false, many);
    EXPECT_EQ(omp_get_max_threads(), 4) << m << 'x' << k << 'x' << n;
    EXPECT_TRUE(bitwise_equal(one, many)) << m << 'x' << k << 'x' << n;
  }
  omp_set_num_threads(before);
}

// Every size of a register tile and of the rest of a row.
TEST(MatMul, IsRightAtTheEdgesOfTiles) {
  std::mt19937_64 engine(10);
  const auto device = test_device();
  for (std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17})
    for (std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 97})
      for (int mask = 0; mask < 4; ++mask) {
        const bool ta = mask & 1, tb = mask & 2;
        const Tensor a = random_tensor(DType::f32, ta ? Shape{5, m} : Shape{m, 5}, engine);
        const Tensor b = random_tensor(DType::f32, tb ? Shape{n, 5} : Shape{5, n}, engine);
        Tensor c(DType::f32, {m, n});
        matmul(device->parallelism(), a, b, ta, tb, c);
        expect_close(c, matmul_reference(a, b, ta, tb), fmt::format("{}x5x{} {}", m, n, mask));
      }
}

// More shapes than a thread keeps primitives for, each met again after it was dropped.
TEST(MatMul, IsRightForMoreShapesThanAreKept) {
  std::mt19937_64 engine(9);
  const auto device = test_device();
  const Tensor a = random_tensor(DType::f32, {4, 7}, engine);
  for (int round = 0; round < 2; ++round)
    for (std::int64_t n = 2; n < 302; ++n) {
      const Tensor b = random_tensor(DType::f32, {7, n}, engine);
      Tensor c(DType::f32, {4, n});
      matmul(device->parallelism(), a, b, false, false, c);
      expect_close(c, matmul_reference(a, b, false, false), fmt::format("4x7x{}", n));
    }
}

TEST(Scratch, IsOfEachItsOwnAndReused) {
  void* first = nullptr;
  {
    const Scratch outer(100), inner(5000);
    first = outer.data();
    EXPECT_NE(outer.data(), inner.data());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inner.data()) % kBufferAlignment, 0u);
  }
  EXPECT_EQ(Scratch(60).data(), first);
  std::fill_n(ScratchArray<float>(100'000).data(), 100'000, 1.0f);  // grows
}

TEST(MatMul, OfEmptyMatricesIsEmptyOrZero) {
  const KernelRegistry registry = all_kernels();
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    SCOPED_TRACE(name(dtype));
    const auto product = [&](Shape a, Shape b) {
      return run_every_way(
          registry, {"MatMul", dtype, {Tensor::zeros(dtype, a), Tensor::zeros(dtype, b)}, flags(false, false)})[0];
    };
    EXPECT_EQ(product({0, 3}, {3, 2}).shape(), (Shape{0, 2}));
    EXPECT_EQ(product({2, 3}, {3, 0}).shape(), (Shape{2, 0}));
    EXPECT_TRUE(bitwise_equal(product({2, 0}, {0, 3}), Tensor::zeros(dtype, {2, 3})));
  }
}

TEST(MatMul, OfIntegersIsExactAndWraps) {
  const KernelRegistry registry = all_kernels();
  const Tensor a = Tensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 2147483647});
  const Tensor b = Tensor::of<std::int32_t>({2, 3}, {7, 8, 9, 10, 11, 2});  // transposed
  const Tensor c = run_every_way(registry, {"MatMul", DType::i32, {a, b}, flags(false, true)})[0];
  EXPECT_TRUE(bitwise_equal(c, Tensor::of<std::int32_t>({2, 2}, {50, 38, 68 - 9 + std::int32_t(-2147483647 - 1), 93})))
      << c.to_string();
  const Tensor d = run_every_way(
      registry, {"MatMul",
                 DType::i64,
                 {Tensor::of<std::int64_t>({2, 1}, {3, 4}), Tensor::of<std::int64_t>({2, 2}, {1, 2, 3, 4})},
                 flags(true, false)})[0];
  EXPECT_TRUE(bitwise_equal(d, Tensor::of<std::int64_t>({1, 2}, {15, 22})));
}

TEST(MatMul, OfIntegersIsExactForAnyShapeAndTranspose) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(11);
  const auto check = [&]<class T>(T) {
    const auto draw = [&](const Shape& shape) {
      Tensor t(dtype_of<T>, shape);
      for (T& v : t.mutable_values<T>()) v = static_cast<T>(engine());
      return t;
    };
    using Unsigned = std::make_unsigned_t<T>;
    for (const auto& [m, k, n] :
         std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {16, 16, 16}, {17, 33, 40}, {3, 100, 1}, {50, 2, 70}})
      for (int mask = 0; mask < 4; ++mask) {
        const bool ta = mask & 1, tb = mask & 2;
        const Tensor a = draw(ta ? Shape{k, m} : Shape{m, k}), b = draw(tb ? Shape{n, k} : Shape{k, n});
        Tensor want(dtype_of<T>, {m, n});
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            Unsigned sum = 0;
            for (std::int64_t p = 0; p < k; ++p)
              sum += static_cast<Unsigned>(a.data<T>()[ta ? p * m + i : i * k + p]) *
                     static_cast<Unsigned>(b.data<T>()[tb ? j * k + p : p * n + j]);
            want.mutable_data<T>()[i * n + j] = static_cast<T>(sum);
          }
        EXPECT_TRUE(bitwise_equal(run_every_way(registry, {"MatMul", dtype_of<T>, {a, b}, flags(ta, tb)})[0], want))
            << m << "x" << k << "x" << n << " " << mask;
      }
  };
  check(std::int32_t{});
  check(std::int64_t{});
}

TEST(MatMul, NamesTheShapesThatDoNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](Shape a, Shape b, bool ta) {
    run_kernel(registry, *device,
               {"MatMul", DType::f32, {Tensor::zeros(DType::f32, a), Tensor::zeros(DType::f32, b)}, flags(ta, false)});
  };
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run({32, 784}, {128, 10}, false);
                       }),
            "MatMul: inner dimensions differ: [32,784] x [128,10]");
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run({3, 4}, {4, 5}, true);
                       }),
            "MatMul: inner dimensions differ: [3,4] transposed x [4,5]");
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run({3}, {3, 5}, true);
                       }),
            "MatMul: a is a vector [3], which has no transpose");
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run({}, {3, 5}, false);
                       }),
            "MatMul: a must have at least one dimension, but is a scalar");
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run({2, 4, 3}, {5, 3, 5}, false);
                       }),
            "MatMul: dimensions of [2,4,3] x [5,3,5] cannot be broadcast together: 2 and 5");
  Tensor small(DType::f32, {1, 1});
  const Tensor a = Tensor::zeros(DType::f32, {2, 2});
  message_of(Code::invalid_argument, [&] { matmul(device->parallelism(), a, a, false, false, small); });
  message_of(Code::invalid_argument, [&] {
    matmul(device->parallelism(), a, Tensor::zeros(DType::f64, {2, 2}), false, false, small);
  });
}

// Element by element, with NumPy's broadcasting of all dimensions but the last two.
Sums batch_reference(const Tensor& a, const Tensor& b, bool ta, bool tb, const Shape& out) {
  const auto x = doubles(a), y = doubles(b);
  const Shape &as = a.shape(), &bs = b.shape();
  const std::int64_t m = as[ta ? -1 : -2], k = as[ta ? -2 : -1], n = bs[tb ? -2 : -1];
  Sums sums(out.num_elements());
  for (std::int64_t at = 0; at < out.num_elements(); ++at) {
    const auto matrix_of = [&](const Shape& shape) {
      std::int64_t index = 0, rest = at / (m * n), step = 1;
      for (int d = out.rank() - 3; d >= 0; --d) {
        const int own = d - out.rank() + shape.rank();
        const std::int64_t size = own >= 0 ? shape[own] : 1;
        if (size > 1) index += rest % out[d] * step;
        step *= size;
        rest /= out[d];
      }
      return index;
    };
    const std::int64_t left = matrix_of(as) * m * k, right = matrix_of(bs) * k * n, i = at / n % m, j = at % n;
    for (std::int64_t p = 0; p < k; ++p)
      sums.add(at, x[static_cast<std::size_t>(left + (ta ? p * m + i : i * k + p))] *
                       y[static_cast<std::size_t>(right + (tb ? j * k + p : p * n + j))]);
  }
  return sums;
}

TEST(MatMul, OfBatchesBroadcastsTheDimensionsBeforeTheMatrices) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(12);
  struct Batches {
    Shape a, b, out;
  };
  const std::vector<Batches> batches{{{5}, {5}, {5}},       {{5}, {}, {5}},           {{}, {5}, {5}},
                                     {{2, 3}, {3}, {2, 3}}, {{2, 1}, {1, 3}, {2, 3}}, {{2, 3}, {2, 1}, {2, 3}},
                                     {{1, 1}, {1}, {1, 1}}, {{0}, {1}, {0}},          {{2, 1, 3}, {4, 1}, {2, 4, 3}}};
  const std::vector<std::array<std::int64_t, 3>> sizes{{3, 5, 7}, {17, 33, 20}, {1, 4, 1}, {2, 0, 3}};
  for (const auto& [m, k, n] : sizes)
    for (const Batches& batch : batches)
      for (DType dtype : kFloats)
        for (int mask = 0; mask < 4; ++mask) {
          const bool ta = mask & 1, tb = mask & 2;
          const Tensor a = random_tensor(dtype, batch.a.concatenated(ta ? Shape{k, m} : Shape{m, k}), engine);
          const Tensor b = random_tensor(dtype, batch.b.concatenated(tb ? Shape{n, k} : Shape{k, n}), engine);
          const Shape out = batch.out.concatenated({m, n});
          const Tensor c = run_every_way(registry, {"MatMul", dtype, {a, b}, flags(ta, tb)})[0];
          const std::string where = fmt::format("{} x {} {} {}", a.shape().to_string(), b.shape().to_string(), ta, tb);
          ASSERT_EQ(c.shape(), out) << where;
          expect_close(c, batch_reference(a, b, ta, tb, out), where);
        }
}

TEST(MatMul, OfVectorsLacksTheirDimension) {
  const KernelRegistry registry = all_kernels();
  const auto product = [&](const Tensor& a, const Tensor& b) {
    return run_every_way(registry, {"MatMul", DType::f32, {a, b}, flags(false, false)})[0];
  };
  const Tensor v = Tensor::vector<float>({1, 2}), w = Tensor::of<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(bitwise_equal(product(v, v), Tensor::scalar(5.0f)));
  EXPECT_TRUE(bitwise_equal(product(v, w), Tensor::of<float>({2, 2}, {7, 10, 19, 22})));
  EXPECT_TRUE(bitwise_equal(product(w, v), Tensor::of<float>({2, 2}, {5, 11, 17, 23})));
}

// One product of all rows: as fast and with the bits of the product of matrices.
TEST(MatMul, OfABatchAndAMatrixHasTheBitsOfOneProduct) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(13);
  for (DType dtype : kFloats) {
    const Tensor a = random_tensor(dtype, {6, 50, 30}, engine), b = random_tensor(dtype, {30, 40}, engine);
    const Tensor batch = run_every_way(registry, {"MatMul", dtype, {a, b}, flags(false, false)})[0];
    const Tensor one = run_every_way(registry, {"MatMul", dtype, {a.reshaped({300, 30}), b}, flags(false, false)})[0];
    EXPECT_TRUE(bitwise_equal(batch.reshaped({300, 40}), one)) << name(dtype);
  }
}

TEST(MatMul, OfIntegersOfEachSizeWraps) {
  const KernelRegistry registry = all_kernels();
  const auto check = [&]<class T>(T) {
    const Tensor a = Tensor::of<T>({2, 1, 2}, {T(100), T(2), T(-3), T(7)}), b = Tensor::of<T>({2, 1}, {T(3), T(5)});
    const Tensor want = Tensor::of<T>({2, 1, 1}, {static_cast<T>(310), T(26)});
    EXPECT_TRUE(bitwise_equal(run_every_way(registry, {"MatMul", dtype_of<T>, {a, b}, flags(false, false)})[0], want))
        << name(dtype_of<T>);
  };
  for_each_type(IntegerTypes{}, [&]<class T>() { check(T{}); });
}

TEST(BiasAdd, AddsAlongTheLastAxis) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(4);
  for (const Shape& shape : {Shape{5}, Shape{3, 7}, Shape{2, 30, 31, 33}, Shape{0, 4}, Shape{4, 0}})
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = random_tensor(dtype, shape, engine), bias = random_tensor(dtype, {shape[-1]}, engine);
      const Tensor y = run_every_way(registry, {"BiasAdd", dtype, {x, bias}, {}})[0];
      const auto xs = doubles(x), bs = doubles(bias), ys = doubles(y);
      ASSERT_EQ(y.shape(), shape) << shape.to_string() << ' ' << name(dtype);
      for (std::size_t i = 0; i < xs.size(); ++i) {
        const double sum = xs[i] + bs[i % bs.size()];
        ASSERT_EQ(ys[i], dtype == DType::f32 ? static_cast<double>(static_cast<float>(sum)) : sum)
            << shape.to_string() << ' ' << name(dtype) << ' ' << i;
      }
    }
}

float rounded(float x, DType dtype) {
  return dtype == DType::f16 ? static_cast<float>(Half(x)) : static_cast<float>(BFloat16(x));
}

TEST(BiasAdd, OfNarrowTypesAddsFloatsAndRoundsToNearestEven) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(6);
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = random_tensor(dtype, {9, 301}, engine), bias = random_tensor(dtype, {301}, engine);
    const auto xs = doubles(x), bs = doubles(bias);
    const auto ys = doubles(run_every_way(registry, {"BiasAdd", dtype, {x, bias}, {}})[0]);
    for (std::size_t i = 0; i < ys.size(); ++i)
      ASSERT_EQ(ys[i], rounded(static_cast<float>(xs[i]) + static_cast<float>(bs[i % 301]), dtype))
          << name(dtype) << ' ' << i;
  }
}

// Every float is rounded as the conversion of one element does, NaN included.
TEST(LowPrecision, ArraysHaveTheBitsOfSingleConversions) {
  std::mt19937 engine(8);
  std::vector<float> values{0.0f, -0.0f, 65519.9f, 65520.0f, -1e30f, 0x1p-25f, 0x1.8p-24f, 1.00390625f, 1.01171875f};
  values.push_back(std::numeric_limits<float>::infinity());
  for (std::uint32_t nan : {0x7f800001u, 0xffc12345u, 0x7fffffffu}) values.push_back(std::bit_cast<float>(nan));
  for (int i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  const auto count = static_cast<std::int64_t>(values.size());
  const auto check = [&]<class T>(T) {
    std::vector<T> narrowed(values.size());
    narrow(values.data(), narrowed.data(), count);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(narrowed[i].bits, T(values[i]).bits) << std::bit_cast<std::uint32_t>(values[i]);
    std::vector<T> all(65536);
    std::vector<float> widened(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
    widen(all.data(), widened.data(), 65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float one = static_cast<float>(all[i]);
      if (std::isnan(one))
        ASSERT_TRUE(std::isnan(widened[i])) << i;
      else
        ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::bit_cast<std::uint32_t>(one)) << i;
    }
  };
  check(Half{});
  check(BFloat16{});
}

TEST(BiasAdd, WritesIntoItsInputIfItMay) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  const std::byte* memory = x.raw();
  KernelCall call{"BiasAdd", DType::f32, {}, {}};
  call.inputs.push_back(std::move(x));
  call.inputs.push_back(Tensor::vector<float>({10, 20}));
  const Tensor y = run_kernel(registry, *device, std::move(call))[0];
  if (kernel_target().on_host()) {
    EXPECT_EQ(y.raw(), memory);
  }
  EXPECT_TRUE(bitwise_equal(y, Tensor::of<float>({2, 2}, {11, 22, 13, 24})));
}

TEST(BiasAdd, RefusesABiasOfAnotherLength) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  EXPECT_EQ(message_of(
                Code::invalid_argument,
                [&] {
                  run_kernel(
                      registry, *device,
                      {"BiasAdd", DType::f32, {Tensor::zeros(DType::f32, {2, 3}), Tensor::zeros(DType::f32, {2})}, {}});
                }),
            "BiasAdd: bias must be f32[3], but is f32[2]");
  message_of(Code::invalid_argument, [&] {
    run_kernel(registry, *device, {"BiasAddGrad", DType::f32, {Tensor::scalar(1.0f)}, {}});
  });
}

TEST(BiasAddGrad, SumsOverAllAxesButTheLast) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(5);
  for (const Shape& shape :
       {Shape{5}, Shape{300, 7}, Shape{1, 1}, Shape{2, 40, 31, 33}, Shape{5000, 10}, Shape{0, 4}, Shape{4, 0}})
    for (DType dtype : kFloats) {
      const Tensor dy = random_tensor(dtype, shape, engine);
      const Tensor sum = run_every_way(registry, {"BiasAddGrad", dtype, {dy}, {}})[0];
      ASSERT_EQ(sum.shape(), (Shape{shape[-1]})) << shape.to_string() << ' ' << name(dtype);
      Sums want(shape[-1]);
      const auto values = doubles(dy);
      for (std::size_t i = 0; i < values.size(); ++i) want.add(static_cast<std::int64_t>(i) % shape[-1], values[i]);
      expect_close(sum, want, shape.to_string());
    }
}

}  // namespace
}  // namespace troupe
