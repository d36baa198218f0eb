// Kernels of sparse tensors, against dense tensors in double precision.
#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/messages/element_types.hpp>

namespace troupe::testing {
namespace {

using Longs = std::vector<std::int64_t>;

Tensor longs(const Longs& values) { return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values); }
Tensor coordinates(const Longs& values, std::int64_t rank) {
  return Tensor::of<std::int64_t>(Shape{std::ssize(values) / rank, rank}, values);
}
Longs in(const Tensor& t) { return {t.values<std::int64_t>().begin(), t.values<std::int64_t>().end()}; }

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

class SparseKernels : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    TROUPE_CPU_ONLY("sparse tensors are on the host");
  }

  // Coordinates of `count` elements in [m,n], in row-major order, some of them several times; half of them in few rows.
  Longs random_places(std::int64_t count, std::int64_t m, std::int64_t n) {
    std::vector<std::pair<std::int64_t, std::int64_t>> places;
    const auto draw = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
    };
    for (std::int64_t i = 0; i < count; ++i)
      places.emplace_back(i % 2 == 0 ? draw(m) : std::min(m - 1, draw(3)), draw(n));
    std::ranges::sort(places);
    Longs out;
    for (const auto& [row, column] : places) out.insert(out.end(), {row, column});
    return out;
  }

  // The same elements in another order, their values too.
  static std::pair<Tensor, Tensor> reversed(const Tensor& places, const Tensor& values) {
    Tensor at(DType::i64, places.shape()), to(values.dtype(), values.shape());
    const std::int64_t n = values.num_elements();
    const auto size = static_cast<std::ptrdiff_t>(size_of(values.dtype()));
    for (std::int64_t i = 0; i < n; ++i) {
      std::copy_n(places.data<std::int64_t>() + 2 * i, 2, at.mutable_data<std::int64_t>() + 2 * (n - 1 - i));
      std::copy_n(values.raw() + i * size, size, to.mutable_raw() + (n - 1 - i) * size);
    }
    return {at, to};
  }

  static Attributes adjoints(bool a, bool b) { return {{"adjoint_a", a}, {"adjoint_b", b}}; }

  std::vector<Tensor> outputs_of(std::string op, std::vector<Tensor> inputs, std::size_t count,
                                 Attributes attributes = {}) {
    return run({.op = std::move(op),
                .dtype = DType::i64,
                .inputs = std::move(inputs),
                .attributes = std::move(attributes),
                .outputs = count});
  }
};

template <class T>
void expect_product(const Tensor& found, const Tensor& places, const Tensor& values, const Tensor& b, bool adjoint_a,
                    bool adjoint_b) {
  const std::int64_t columns = found.shape()[1], inner = b.shape()[1];
  std::vector<double> exact(static_cast<std::size_t>(found.num_elements())), sizes = exact;
  const auto v = doubles(values), dense = doubles(b), result = doubles(found);
  const Longs at = in(places);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const std::int64_t row = at[2 * i + (adjoint_a ? 1 : 0)], from = at[2 * i + (adjoint_a ? 0 : 1)];
    for (std::int64_t j = 0; j < columns; ++j) {
      const double product = v[i] * dense[static_cast<std::size_t>(adjoint_b ? j * inner + from : from * inner + j)];
      exact[static_cast<std::size_t>(row * columns + j)] += product;
      sizes[static_cast<std::size_t>(row * columns + j)] += std::abs(product);
    }
  }
  const double epsilon = std::is_integral_v<T>       ? 0
                         : std::is_same_v<T, double> ? 1e-15
                         : std::is_same_v<T, float>  ? 1e-6
                                                     : 8e-3;
  for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(result[i], exact[i], epsilon * (1 + sizes[i])) << i;
}

TEST_F(SparseKernels, ProductsAreThoseOfTheWholeMatrix) {
  for_each_type(Types<float, double, Half, BFloat16, std::int32_t, std::int64_t>{}, [&]<class T>() {
    for (const std::int64_t width : {1, 2, 3, 4, 7, 16, 33, 64, 65, 130})
      for (const auto& [m, n, count] : {std::array<std::int64_t, 3>{1, 1, 1}, {5, 9, 0}, {17, 6, 40}, {50, 70, 400}})
        for (const bool adjoint_a : {false, true})
          for (const bool adjoint_b : {false, true}) {
            const Tensor places = coordinates(random_places(count, m, n), 2), values = random<T>({count});
            const std::int64_t inner = adjoint_a ? m : n;
            const Tensor b = random<T>(adjoint_b ? Shape{width, inner} : Shape{inner, width});
            const std::vector<Tensor> inputs{places, values, longs({m, n}), b};
            const Tensor y = run_as(dtype_of<T>, "SparseDenseMatMul", inputs, adjoints(adjoint_a, adjoint_b));
            ASSERT_EQ(y.shape(), (Shape{adjoint_a ? n : m, width}));
            expect_product<T>(y, places, values, b, adjoint_a, adjoint_b);
          }
  });
}

// Of 20,000 elements, so that there are several parts.
TEST_F(SparseKernels, ProductsHaveTheSameBitsOnAnyNumberOfThreads) {
  for (const std::int64_t width : {1, 5, 64, 200})
    for (const bool adjoint : {false, true}) {
      const Tensor places = coordinates(random_places(20'000, 300, 400), 2), values = random<float>({20'000});
      const std::vector<Tensor> inputs{places, values, longs({300, 400}), random<float>({adjoint ? 300 : 400, width})};
      const KernelCall call{
          .op = "SparseDenseMatMul", .dtype = DType::f32, .inputs = inputs, .attributes = adjoints(adjoint, false)};
      const Tensor y = run_kernel(registry(), *device_, call)[0];
      EXPECT_TRUE(bitwise_equal(y, run_kernel(registry(), *three_threads_, call)[0])) << width << adjoint;
      const Tensor unordered = [&] {
        KernelCall other = call;
        std::tie(other.inputs[0], other.inputs[1]) = reversed(places, values);
        return run_kernel(registry(), *three_threads_, other)[0];
      }();
      expect_product<float>(unordered, places, values, inputs[3], adjoint, false);
    }
}

TEST_F(SparseKernels, RowsWithoutElementsAreZeros) {
  const Tensor y = run_as(
      DType::f32, "SparseDenseMatMul",
      {coordinates({2, 0, 4, 1}, 2), Tensor::vector<float>({2, 3}), longs({7, 2}), Tensor::of<float>({2, 1}, {1, 10})},
      adjoints(false, false));
  EXPECT_EQ(doubles(y), (std::vector<double>{0, 0, 2, 0, 30, 0, 0}));
}

TEST_F(SparseKernels, ProductsNameElementsOutsideOfTheMatrix) {
  const Tensor b = filled<float>({3, 2}, 1);
  for (const auto& [row, column] : {std::pair{2, 0}, {0, 3}, {-1, 0}, {0, -1}}) {
    const Tensor places = coordinates({0, 0, row, column}, 2);
    const std::vector<Tensor> inputs{places, filled<float>({2}, 1), longs({2, 3}), b};
    EXPECT_EQ(message([&] { run_as(DType::f32, "SparseDenseMatMul", inputs, adjoints(false, false)); }),
              "SparseDenseMatMul: element 1 of the sparse tensor is at [" + std::to_string(row) + "," +
                  std::to_string(column) + "], outside of its shape [2,3]");
  }
}

// A row goes on behind the block that is checked with its beginning.
TEST_F(SparseKernels, ProductsCheckTheElementsOfLongRowsBeforeTheyReadWhatTheseMultiply) {
  constexpr std::int64_t kElements = 5000, kOutside = 4000;
  for (const std::int64_t width : {1, 8}) {
    Tensor places(DType::i64, Shape{kElements, 2});
    for (std::int64_t i = 0; i < kElements; ++i) {
      places.mutable_data<std::int64_t>()[2 * i] = 0;
      places.mutable_data<std::int64_t>()[2 * i + 1] = i == kOutside ? std::int64_t{1} << 40 : i;
    }
    const std::vector<Tensor> inputs{places, filled<float>({kElements}, 1), longs({1, kElements}),
                                     filled<float>({kElements, width}, 1)};
    EXPECT_EQ(message([&] { run_as(DType::f32, "SparseDenseMatMul", inputs, adjoints(false, false)); }),
              "SparseDenseMatMul: element 4000 of the sparse tensor is at [0,1099511627776], outside of its shape "
              "[1,5000]");
  }
}

TEST_F(SparseKernels, ElementsOfProductsAreThoseOfAllOfIt) {
  for (const std::int64_t width : {0, 1, 5, 40}) {
    const Tensor x = random<float>({6, width}), y = random<float>({9, width});
    const Tensor places = coordinates(random_places(30, 6, 9), 2);
    const Tensor found = run_as(DType::f32, "SampledMatMul", {places, x, y});
    for (std::int64_t i = 0; i < 30; ++i) {
      const std::int64_t row = in(places)[static_cast<std::size_t>(2 * i)],
                         column = in(places)[static_cast<std::size_t>(2 * i + 1)];
      double exact = 0;
      for (std::int64_t j = 0; j < width; ++j)
        exact += static_cast<double>(x.data<float>()[row * width + j]) *
                 static_cast<double>(y.data<float>()[column * width + j]);
      EXPECT_NEAR(found.data<float>()[i], exact, 1e-4);
    }
  }
  EXPECT_EQ(message([&] {
              run_as(DType::f32, "SampledMatMul",
                     {coordinates({0, 5}, 2), filled<float>({1, 1}, 1), filled<float>({5, 1}, 1)});
            }),
            "SampledMatMul: element 0 is at [0,5], outside of the product [1,5]");
}

TEST_F(SparseKernels, TheWholeTensorHasDefaultsElsewhere) {
  const auto dense = [&](const Longs& places, bool validate) {
    Tensor values = Tensor::vector<float>({5, 6});
    return run_as(DType::f32, "SparseToDense",
                  {coordinates(places, 2), values, longs({2, 3}), Tensor::scalar<float>(-1)}, {{"validate", validate}});
  };
  EXPECT_EQ(doubles(dense({0, 2, 1, 0}, true)), (std::vector<double>{-1, -1, 5, 6, -1, -1}));
  EXPECT_EQ(doubles(dense({1, 0, 0, 2}, false)), (std::vector<double>{-1, -1, 6, 5, -1, -1}));
  EXPECT_EQ(doubles(dense({1, 0, 1, 0}, false)), (std::vector<double>{-1, -1, -1, 6, -1, -1}));
  const auto error = [&](const Longs& places) { return message([&] { dense(places, true); }); };
  EXPECT_EQ(
      error({1, 0, 0, 2}),
      "SparseToDense: element 1 of the sparse tensor, at [0,2], comes after one at [1,0]: sort them by reorder()");
  EXPECT_EQ(error({1, 0, 1, 0}),
            "SparseToDense: elements 0 and 1 of the sparse tensor are both at [1,0]: add them up by coalesce()");
  EXPECT_EQ(error({0, 2, 1, 3}),
            "SparseToDense: element 1 of the sparse tensor is at [1,3], outside of its shape [2,3]");
}

TEST_F(SparseKernels, AWholeOfOneElementAndOfNone) {
  const Tensor none(DType::i64, {0, 2}), scalar(DType::i64, {1, 0});
  EXPECT_EQ(run_as(DType::f32, "SparseToDense",
                   {none, Tensor(DType::f32, {0}), longs({0, 3}), Tensor::scalar<float>(1)}, {{"validate", true}})
                .shape(),
            (Shape{0, 3}));
  EXPECT_EQ(
      doubles(run_as(DType::f32, "SparseToDense",
                     {scalar, Tensor::vector<float>({7}), longs({}), Tensor::scalar<float>(1)}, {{"validate", true}})),
      (std::vector<double>{7}));
}

TEST_F(SparseKernels, PlacesAreThoseOfABroadcastTensor) {
  const Tensor at = coordinates({0, 0, 1, 1, 2, 3}, 3);
  const auto places = [&](const Longs& like) {
    return in(outputs_of("SparsePlaces", {at, longs({2, 3, 4}), longs(like)}, 1)[0]);
  };
  EXPECT_EQ(places({2, 3, 4}), (Longs{1, 23}));
  EXPECT_EQ(places({4}), (Longs{1, 3}));
  EXPECT_EQ(places({2, 1, 1}), (Longs{0, 1}));
  EXPECT_EQ(places({3, 1}), (Longs{0, 2}));
  EXPECT_EQ(places({}), (Longs{0, 0}));
  EXPECT_EQ(error_of("SparsePlaces", {at, longs({2, 3, 4}), longs({3, 3})}),
            "SparsePlaces: a dense tensor [3,3] does not broadcast to the sparse one, [2,3,4]");
  EXPECT_EQ(error_of("SparsePlaces", {at, longs({2, 3, 4}), longs({1, 2, 3, 4})}),
            "SparsePlaces: a dense tensor [1,2,3,4] does not broadcast to the sparse one, [2,3,4]");
}

TEST_F(SparseKernels, AUnionHasThePlacesOfBoth) {
  const auto out =
      outputs_of("SparseUnion", {coordinates({0, 1, 1, 0, 1, 2}, 2), coordinates({0, 0, 1, 0}, 2), longs({2, 3})}, 3);
  EXPECT_EQ(in(out[0]), (Longs{0, 0, 0, 1, 1, 0, 1, 2}));
  EXPECT_EQ(in(out[1]), (Longs{-1, 0, 1, 2}));
  EXPECT_EQ(in(out[2]), (Longs{0, -1, 1, -1}));
  EXPECT_NE(error_of("SparseUnion", {coordinates({1, 0, 0, 0}, 2), coordinates({0, 0}, 2), longs({2, 3})}), "");
  EXPECT_NE(error_of("SparseUnion", {coordinates({1, 0}, 2), coordinates({0, 0, 0, 0}, 2), longs({2, 3})}), "");
}

TEST_F(SparseKernels, GroupsAreThoseOfTheirAxes) {
  const Tensor at = coordinates({1, 0, 0, 2, 1, 1, 0, 0, 1, 0}, 2);
  const auto groups = [&](const Longs& axes) {
    return outputs_of("SparseGroups", {at, longs({2, 3})}, 3, {{"axes", axes}});
  };
  auto out = groups({0, 1});
  EXPECT_EQ(in(out[0]), (Longs{0, 0, 0, 2, 1, 0, 1, 1}));
  EXPECT_EQ(in(out[1]), (Longs{2, 1, 3, 0, 2}));
  EXPECT_EQ(in(out[2]), (Longs{3, 1, 0, 4, 2}));
  out = groups({-1});
  EXPECT_EQ(in(out[0]), (Longs{0, 1, 2}));
  EXPECT_EQ(in(out[1]), (Longs{0, 2, 1, 0, 0}));
  out = groups({});
  EXPECT_EQ(out[0].shape(), (Shape{1, 0}));
  EXPECT_EQ(in(out[1]), (Longs{0, 0, 0, 0, 0}));
}

TEST_F(SparseKernels, ShapesOfTheSameNumberOfElementsAreExchanged) {
  const Tensor at = coordinates({0, 1, 1, 2}, 2);
  const auto reshaped = [&](const Longs& shape) {
    return outputs_of("SparseReshape", {at, longs({2, 3}), longs(shape)}, 2);
  };
  EXPECT_EQ(in(reshaped({6})[1]), (Longs{1, 5}));
  EXPECT_EQ(in(reshaped({3, -1})[1]), (Longs{0, 1, 2, 1}));
  EXPECT_EQ(in(reshaped({3, -1})[0]), (Longs{3, 2}));
  const auto error = [&](const Longs& shape) { return error_of("SparseReshape", {at, longs({2, 3}), longs(shape)}); };
  EXPECT_EQ(error({4}), "SparseReshape: a sparse tensor of shape [2,3] has no shape [4]");
  EXPECT_EQ(error({4, -1}), "SparseReshape: a sparse tensor of shape [2,3] has no shape [4,1]");
  EXPECT_EQ(error({-1, -1}), "SparseReshape: dimensions 0 and 1 of the new shape are negative");
}

TEST_F(SparseKernels, CoordinatesMustFitTheShape) {
  EXPECT_EQ(error_of("SparseGroups", {coordinates({0, 1}, 2), longs({2, 3, 4})}, {{"axes", Longs{0}}}),
            "SparseGroups: indices [1,2] of a sparse tensor of shape [2,3,4] must be [n,3]");
  EXPECT_EQ(error_of("SparseGroups", {coordinates({0, 1}, 2), longs({2, -3})}, {{"axes", Longs{0}}}),
            "SparseGroups: dense_shape [2,-3] has a negative dimension");
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_NE(error_of("SparseGroups", {coordinates({0, 1}, 2), longs({large, large})}, {{"axes", Longs{0, 1}}}), "");
}

}  // namespace
}  // namespace troupe::testing
