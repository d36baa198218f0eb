// Sorts, search, cumulative ops and segments against simple loops and values of NumPy.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/messages/element_types.hpp>

namespace troupe::testing {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class OrderTest : public KernelTest {
 protected:
  static Tensor floats(const Shape& shape, std::initializer_list<float> values) {
    return Tensor::of<float>(shape, values);
  }
  static Tensor longs(const Shape& shape, std::initializer_list<std::int64_t> values) {
    return Tensor::of<std::int64_t>(shape, values);
  }
  static Attributes sorted(std::int64_t axis, bool descending = false) {
    return {{"axis", axis}, {"descending", descending}};
  }
  std::vector<Tensor> top_k(const Tensor& x, std::int64_t k, bool largest = true, std::int64_t axis = -1) {
    return run({.op = "TopK",
                .dtype = x.dtype(),
                .inputs = {x, Tensor::scalar(k)},
                .attributes = {{"axis", axis}, {"largest", largest}},
                .outputs = 2,
                .output_types = {x.dtype(), DType::i64}});
  }
  Tensor cumulate(const char* op, const Tensor& x, std::int64_t axis, bool exclusive = false, bool reverse = false) {
    return run_as(x.dtype(), op, {x, Tensor::scalar(axis)}, {{"exclusive", exclusive}, {"reverse", reverse}});
  }
};

TEST_F(OrderTest, SortsAreStableForEveryType) {
  const auto expect = [&]<class T>(T) {
    for (const std::int64_t n : {1, 7, 300, 5000}) {
      Tensor x = random<T>({n}, 0, 100);
      if constexpr (std::is_floating_point_v<T>)
        for (std::int64_t i = 0; i < n; i += 11) x.mutable_data<T>()[i] = i % 2 ? T{-0.0} : i % 3 ? T{0} : T(kNan);
      const std::vector<double> numbers = doubles(x);
      const auto number = [&](std::int64_t i) { return numbers[static_cast<std::size_t>(i)]; };
      for (const bool descending : {false, true}) {
        Ints order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](std::int64_t i, std::int64_t j) {
          const auto a = number(descending ? j : i), b = number(descending ? i : j);
          return a < b || (a == a && b != b);
        });
        const Tensor got = run1("ArgSort", {x}, sorted(0, descending)),
                     values = run1("Sort", {x}, sorted(-1, descending));
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t at = order[static_cast<std::size_t>(i)];
          ASSERT_EQ(got.data<std::int64_t>()[i], at) << name(dtype_of<T>) << ' ' << n << ' ' << i;
          ASSERT_EQ(std::memcmp(values.data<T>() + i, x.data<T>() + at, sizeof(T)), 0) << name(dtype_of<T>) << ' ' << i;
        }
      }
    }
  };
  expect(float{});
  expect(double{});
  expect(Half{});
  expect(BFloat16{});
  expect(std::int8_t{});
  expect(std::uint8_t{});
  expect(std::int32_t{});
  expect(std::int64_t{});
  const Tensor x = floats({2, 3}, {3, 1, 2, 0, 5, 4});
  EXPECT_TRUE(bitwise_equal(run1("Sort", {x}, sorted(0)), floats({2, 3}, {0, 1, 2, 3, 5, 4})));
  EXPECT_TRUE(bitwise_equal(run1("ArgSort", {x}, sorted(0, true)), longs({2, 3}, {0, 1, 1, 1, 0, 0})));
  EXPECT_EQ(run1("Sort", {Tensor(DType::f32, Shape{0, 3})}, sorted(0)).shape(), (Shape{0, 3}));
  EXPECT_NE(error_of("Sort", {x}, sorted(2)), "");
}

TEST_F(OrderTest, TopKPrefersLowIndicesAndNan) {
  const Tensor x = floats({2, 5}, {1, 3, 3, -1, 2, 0, kNan, -0.0f, 7, kNan});
  auto found = top_k(x, 3);
  EXPECT_TRUE(bitwise_equal(found[1], longs({2, 3}, {1, 2, 4, 1, 4, 3})));
  EXPECT_EQ(found[0].data<float>()[5], 7);
  found = top_k(x, 3, false);
  EXPECT_TRUE(bitwise_equal(found[1], longs({2, 3}, {3, 0, 4, 0, 2, 3})));
  found = top_k(x, 1, true, 0);
  EXPECT_TRUE(bitwise_equal(found[1], longs({1, 5}, {0, 1, 0, 1, 1})));
  EXPECT_EQ(top_k(x, 0)[0].shape(), (Shape{2, 0}));
  EXPECT_THROW(top_k(x, 6), Error);
  EXPECT_THROW(top_k(x, -1), Error);
  for (const std::int64_t k : {1, 10, 700, 20000}) {
    const Tensor many = random<float>({20000}, 0, 50).clone();
    Tensor rounded = many.clone();
    for (float& v : rounded.mutable_values<float>()) v = std::floor(v * 20);
    const Tensor order = run1("ArgSort", {rounded}, sorted(0, true));
    const Tensor got = top_k(rounded, k)[1];
    for (std::int64_t i = 0; i < k; ++i)
      ASSERT_EQ(got.data<std::int64_t>()[i], order.data<std::int64_t>()[i]) << k << ' ' << i;
    const Tensor wide =
        top_k(run_as(DType::f64, "Cast", {rounded}, {{"SrcT", DType::f32}, {"DstT", DType::f64}}), k)[1];
    EXPECT_TRUE(bitwise_equal(wide, got)) << k;
  }
}

TEST_F(OrderTest, UniqueFindsFirstOccurrences) {
  const auto unique = [&](const Tensor& x, Ints axes, bool in_order) {
    return run({.op = "Unique",
                .dtype = x.dtype(),
                .inputs = {x},
                .attributes = {{"axes", std::move(axes)}, {"sorted", in_order}},
                .outputs = 4,
                .output_types = {x.dtype(), DType::i64, DType::i64, DType::i64}});
  };
  const auto expect = [](const std::vector<Tensor>& got, std::initializer_list<Tensor> want) {
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(bitwise_equal(got[i], std::data(want)[i])) << i << ": " << got[i].to_string();
  };
  const Tensor x = floats({6}, {2, 1, 1, 3, 4, 3});
  expect(unique(x, {}, true), {floats({4}, {1, 2, 3, 4}), longs({4}, {1, 0, 3, 4}), longs({6}, {1, 0, 0, 2, 3, 2}),
                               longs({4}, {2, 1, 2, 1})});
  expect(unique(x, {}, false), {floats({4}, {2, 1, 3, 4}), longs({4}, {0, 1, 3, 4}), longs({6}, {0, 1, 1, 2, 3, 2}),
                                longs({4}, {1, 2, 2, 1})});
  expect(unique(floats({4, 3}, {2, 1, 1, 0, 0, 1, 2, 1, 1, 0, 0, 0}), {0}, true),
         {floats({3, 3}, {0, 0, 0, 0, 0, 1, 2, 1, 1}), longs({3}, {3, 1, 0}), longs({4}, {2, 1, 2, 0}),
          longs({3}, {1, 1, 2})});
  expect(unique(floats({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1}), {1}, true),
         {floats({2, 3, 2}, {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1}), longs({3}, {1, 0, 2}), longs({4}, {1, 0, 2, 0}),
          longs({3}, {2, 1, 1})});
  expect(unique(Tensor::vector<std::string>({"b", "a", "b"}), {}, true),
         {Tensor::vector<std::string>({"a", "b"}), longs({2}, {1, 0}), longs({3}, {1, 0, 1}), longs({2}, {1, 2})});
  EXPECT_EQ(unique(Tensor(DType::f32, Shape{0}), {}, true)[0].shape(), (Shape{0}));
}

TEST_F(OrderTest, SearchAndCounts) {
  const Tensor row = floats({4}, {1, 3, 3, 5}), values = floats({5}, {0, 3, 4, 6, kNan});
  const auto places = [&](bool right) { return run1("SearchSorted", {row, values}, {{"right", right}}); };
  EXPECT_TRUE(bitwise_equal(places(false), longs({5}, {0, 1, 3, 4, 4})));
  EXPECT_TRUE(bitwise_equal(places(true), longs({5}, {0, 3, 3, 4, 4})));
  const Tensor rows = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(
      bitwise_equal(run1("SearchSorted", {rows, floats({2, 1}, {2, 2})}, {{"right", false}}), longs({2, 1}, {1, 0})));
  EXPECT_NE(error_of("SearchSorted", {rows, floats({1}, {2})}, {{"right", false}}), "");
  const Tensor x = longs({4}, {1, 3, 1, 0});
  EXPECT_TRUE(bitwise_equal(run1("Bincount", {x, Tensor::scalar<std::int64_t>(6)}), longs({6}, {1, 2, 0, 1, 0, 0})));
  EXPECT_NE(error_of("Bincount", {longs({1}, {-1}), Tensor::scalar<std::int64_t>(0)}), "");
  EXPECT_TRUE(bitwise_equal(run1("HistogramFixedWidth", {floats({6}, {-1, 0, 1.5f, 2, 5, 15}), floats({2}, {0, 5}),
                                                         Tensor::scalar<std::int64_t>(5)}),
                            longs({5}, {2, 1, 1, 0, 2})));
  const Tensor predictions = floats({3, 3}, {0.1f, 0.8f, 0.1f, 0.5f, 0.5f, 0.5f, kNan, 1, 0});
  EXPECT_TRUE(bitwise_equal(run1("InTopK", {predictions, longs({3}, {0, 2, 1}), Tensor::scalar<std::int64_t>(1)}),
                            Tensor::vector<bool>({false, true, false})));
}

TEST_F(OrderTest, CumulativeSumsAndProductsAlongEveryAxis) {
  const auto expect = [&]<class T>(T, double tolerance) {
    for (const std::int64_t n : {1, 5, 16, 100, 2100}) {
      if (sizeof(T) == 1 && n > 100) continue;
      const Tensor x = random<T>({3, n, 2}, -1.5, 1.5), flat = random<T>({3, n}, -1.5, 1.5);
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const Tensor& in : {x, flat}) {
            const std::int64_t inner = in.shape().rank() == 3 ? 2 : 1;
            const Tensor got = cumulate("CumSum", in, 1, exclusive, reverse);
            const std::vector<double> from = doubles(in), to = doubles(got);
            for (std::int64_t o = 0; o < 3; ++o)
              for (std::int64_t j = 0; j < inner; ++j) {
                double sum = 0;
                for (std::int64_t s = 0; s < n; ++s) {
                  const auto at = static_cast<std::size_t>((o * n + (reverse ? n - 1 - s : s)) * inner + j);
                  const double next = sum + from[at];
                  ASSERT_NEAR(to[at], exclusive ? sum : next, tolerance) << name(dtype_of<T>) << ' ' << n;
                  sum = next;
                }
              }
          }
    }
  };
  expect(float{}, 1e-4);
  expect(double{}, 1e-12);
  expect(Half{}, 0.1);
  expect(std::int8_t{}, 0);
  expect(std::int32_t{}, 0);
  expect(std::int64_t{}, 0);
  const Tensor x = floats({4}, {1, -2, 3, 0.5f});
  EXPECT_TRUE(bitwise_equal(cumulate("CumProd", x, 0), floats({4}, {1, -2, -6, -3})));
  EXPECT_TRUE(bitwise_equal(cumulate("CumProd", x, -1, true, true), floats({4}, {-3, 1.5f, 0.5f, 1})));
  EXPECT_NE(error_of("CumSum", {x, Tensor::scalar<std::int64_t>(1)}, {{"exclusive", false}, {"reverse", false}}), "");
}

TEST_F(OrderTest, CumulativeLogSumExpAndExtrema) {
  const Tensor x = floats({4}, {1, -2, 3, 0.5f});
  const Tensor log_sums = cumulate("CumLogSumExp", x, 0);
  const double want[] = {1.0, 1.048587351573742, 3.1328452337275756, 3.2022534476793516};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(log_sums.data<float>()[i], want[i], 1e-6);
  const Tensor large = cumulate("CumLogSumExp", floats({2}, {1000, 1000}), 0);
  EXPECT_NEAR(large.data<float>()[1], 1000.6931, 1e-3);
  const auto extrema = [&](const char* op, const Tensor& in) {
    return run({.op = op,
                .dtype = DType::f32,
                .inputs = {in, Tensor::scalar<std::int64_t>(0)},
                .attributes = {{"reverse", false}},
                .outputs = 2,
                .output_types = {DType::f32, DType::i64}});
  };
  // Longer than what threads hold at once.
  const Tensor row = random<float>({3000});
  const auto longest = extrema("CumMin", row);
  for (std::int64_t i = 0, place = 0; i < 3000; ++i) {
    place = row.data<float>()[i] < row.data<float>()[place] ? i : place;
    ASSERT_EQ(longest[0].data<float>()[i], row.data<float>()[place]) << i;
    ASSERT_EQ(longest[1].data<std::int64_t>()[i], place) << i;
  }
  auto got = extrema("CumMax", floats({5}, {1, 3, 3, 2, 4}));
  EXPECT_TRUE(bitwise_equal(got[0], floats({5}, {1, 3, 3, 3, 4})));
  EXPECT_TRUE(bitwise_equal(got[1], longs({5}, {0, 1, 1, 1, 4})));
  got = extrema("CumMin", floats({4}, {2, kNan, 1, 5}));
  EXPECT_TRUE(bitwise_equal(got[1], longs({4}, {0, 1, 1, 1})));
  EXPECT_TRUE(std::isnan(got[0].data<float>()[3]));
}

TEST_F(OrderTest, SegmentsReduceRows) {
  const auto reduce = [&](const char* kind, bool in_order, const Tensor& ids, std::int64_t count) {
    return run1("SegmentReduce", {floats({4, 1}, {1, 5, 3, 4}), ids, Tensor::scalar(count)},
                {{"reduction", std::string(kind)}, {"sorted", in_order}});
  };
  const Tensor ascending = longs({4}, {0, 0, 2, 2}), any = longs({4}, {1, -1, 0, 1});
  EXPECT_TRUE(bitwise_equal(reduce("sum", true, ascending, 3), floats({3, 1}, {6, 0, 7})));
  EXPECT_TRUE(bitwise_equal(reduce("mean", true, ascending, 3), floats({3, 1}, {3, 0, 3.5f})));
  EXPECT_TRUE(bitwise_equal(reduce("max", true, ascending, 3), floats({3, 1}, {5, 0, 4})));
  EXPECT_TRUE(bitwise_equal(reduce("min", true, ascending, 3), floats({3, 1}, {1, 0, 3})));
  EXPECT_TRUE(bitwise_equal(reduce("prod", true, ascending, 3), floats({3, 1}, {5, 1, 12})));
  EXPECT_TRUE(bitwise_equal(reduce("sum", false, any, 2), floats({2, 1}, {3, 5})));
  EXPECT_TRUE(
      bitwise_equal(reduce("max", false, any, 3), floats({3, 1}, {3, 4, std::numeric_limits<float>::lowest()})));
  // Of every dtype, 16 bits rounded once.
  for_each_type(FloatTypes{}, [&]<class T>() {
    const Tensor x = random<T>({200, 3}), ids = random<std::int64_t>({200}, -1, 5);
    const Tensor got = run1("SegmentReduce", {x, ids, Tensor::scalar<std::int64_t>(5)},
                            {{"reduction", std::string("mean")}, {"sorted", false}});
    for (std::int64_t s = 0; s < 5; ++s)
      for (std::int64_t j = 0; j < 3; ++j) {
        Compute<T> sum = 0;
        std::int64_t rows = 0;
        for (std::int64_t i = 0; i < 200; ++i) {
          if (ids.data<std::int64_t>()[i] != s) continue;
          sum += static_cast<Compute<T>>(x.data<T>()[i * 3 + j]);
          ++rows;
        }
        const T want = static_cast<T>(sum / static_cast<Compute<T>>(rows));
        EXPECT_EQ(std::memcmp(&got.data<T>()[s * 3 + j], &want, sizeof want), 0) << name(dtype_of<T>) << s;
      }
  });
  EXPECT_THROW(reduce("sum", true, any, 2), Error);
  EXPECT_THROW(reduce("sum", false, any, 1), Error);
  EXPECT_THROW(reduce("median", false, any, 2), Error);
}

}  // namespace
}  // namespace troupe::testing
