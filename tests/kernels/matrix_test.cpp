// Determinants, factors, inverses and solutions. Python compares decompositions with NumPy (linalg_test.py).
#include <gtest/gtest.h>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

class Matrices : public ::testing::Test {
 protected:
  Tensor run(const std::string& op, const Tensor& x) { return run_every_way(registry_, {op, x.dtype(), {x}, {}})[0]; }
  std::string refused(const std::string& op, const Tensor& x) {
    return message_of(Code::invalid_argument, [&] { run_kernel(registry_, *test_device(), {op, x.dtype(), {x}, {}}); });
  }
  void SetUp() override {
    if (!kernel_target().on_host()) GTEST_SKIP() << "kernels of the CPU";
  }
  const KernelRegistry registry_ = all_kernels();
};

// By expansion along the first row.
double minor_sum(const std::vector<double>& x, std::int64_t n);
std::vector<double> without(const std::vector<double>& x, std::int64_t n, std::int64_t row, std::int64_t column) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (i != row && j != column) out.push_back(x[static_cast<std::size_t>(i * n + j)]);
  return out;
}
double minor_sum(const std::vector<double>& x, std::int64_t n) {
  if (n == 0) return 1;
  double out = 0;
  for (std::int64_t j = 0; j < n; ++j)
    out += (j % 2 ? -1 : 1) * x[static_cast<std::size_t>(j)] * minor_sum(without(x, n, 0, j), n - 1);
  return out;
}

// NumPy's slogdet().
TEST_F(Matrices, SignsAndLogarithmsOfDeterminants) {
  const std::vector<double> values{2, 1, 0, 1,     3, -1, 0, 4, 1, 0, 1, 0, 1, 0,
                                   0, 0, 0, -2e-3, 1, 2,  3, 2, 4, 6, 1, 0, 1};
  Graph g;
  GraphEvaluator evaluator;
  const LogDet found = slogdet(constant(g, Tensor::of<double>(Shape{3, 3, 3}, values)));
  EXPECT_EQ(doubles(evaluator.run(found.sign)), (std::vector<double>{1, 1, 0}));
  const auto logarithms = doubles(evaluator.run(found.log_abs));
  EXPECT_NEAR(logarithms[0], 2.5649493574615367, 1e-13);
  EXPECT_NEAR(logarithms[1], -6.214608098422191, 1e-13);
  EXPECT_EQ(logarithms[2], -std::numeric_limits<double>::infinity());
  // exp(2763.1) overflows.
  const Output size = constant<std::int64_t>(g, 400);
  const Output large = eye(size, size, {.dtype = DType::f32}) * 1e3;
  EXPECT_NEAR(evaluator.run(logdet(large)).item<float>(), 2763.102111592873, 1e-3);
  EXPECT_EQ(evaluator.run(trace(large)).item<float>(), 4e5f);
  const Output negative = logdet(constant(g, Tensor::of<float>(Shape{2, 2}, {0, 1, 1, 0})));
  EXPECT_TRUE(std::isnan(evaluator.run(negative).item<float>()));
  EXPECT_EQ(evaluator.run(slogdet(constant(g, Tensor(DType::f32, Shape{0, 0}))).sign).item<float>(), 1);
}

void expect_values(const Tensor& found, const std::vector<double>& expected) {
  const std::vector<double> values = doubles(found);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-13) << i;
}

// NumPy's cholesky() and solve().
TEST_F(Matrices, FactorsAndSolutions) {
  Graph g;
  GraphEvaluator evaluator;
  const auto matrix = [&](const Shape& shape, const std::vector<double>& values) {
    return constant(g, Tensor::of<double>(shape, values));
  };
  // What is above the diagonal is not read.
  const Output positive = matrix({3, 3}, {4, 77, 77, 2, 10, 77, -2, 4, 9}), l = cholesky(positive);
  expect_values(evaluator.run(l), {2, 0, 0, 1, 3, 0, -1, 5.0 / 3, 2.2852182001336816});
  const Output a = matrix({3, 3}, {0, 2, 1, 1, 1, 0, 3, 0, -1}), b = matrix({3, 2}, {1, 2, 3, -1, 0, 4});
  expect_values(evaluator.run(matrix_solve(a, b)), {-5, 8, 8, -9, -15, 20});
  expect_values(evaluator.run(matrix_solve(a, b, {.adjoint = true})), {-2, 15, 7, -31, -2, 11});
  const Output low = matrix({3, 3}, {2, 9, 9, 1, 4, 9, -3, 5, 0.5}),
               high = matrix({3, 3}, {2, 1, -3, 9, 4, 5, 9, 9, 0.5});
  expect_values(evaluator.run(triangular_solve(low, b)), {0.5, 1, 0.625, -0.5, -3.25, 19});
  expect_values(evaluator.run(triangular_solve(low, b, {.adjoint = true})), {0.125, 18.125, 0.75, -10.25, 0, 8});
  expect_values(evaluator.run(triangular_solve(high, b, {.lower = false})), {0.125, 18.125, 0.75, -10.25, 0, 8});
  expect_values(evaluator.run(triangular_solve(high, b, {.adjoint = true, .lower = false})),
                {0.5, 1, 0.625, -0.5, -3.25, 19});
  const Output symmetric = matrix({3, 3}, {4, 2, -2, 2, 10, 4, -2, 4, 9});
  expect_values(evaluator.run(matmul(symmetric, cholesky_solve(l, b))), {1, 2, 3, -1, 0, 4});
  EXPECT_EQ(evaluator.run(matrix_solve(matrix({2, 0, 0}, {}), matrix({2, 0, 3}, {}))).shape(), (Shape{2, 0, 3}));
  EXPECT_THROW(evaluator.run(cholesky(matrix({2, 2}, {1, 2, 2, 1}))), Error);
  EXPECT_THROW(evaluator.run(matrix_solve(matrix({2, 2}, {1, 2, 2, 4}), matrix({2, 1}, {1, 1}))), Error);
  EXPECT_THROW(evaluator.run(triangular_solve(matrix({2, 2}, {1, 2, 2, 0}), matrix({2, 1}, {1, 1}))), Error);
  EXPECT_THROW(matrix_solve(a, matrix({2, 2}, {1, 2, 3, 4})), Error);
}

TEST_F(Matrices, SolutionsAreThoseOfAnyThreads) {
  std::mt19937_64 engine(3);
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor a = random_tensor(dtype, {7, 20, 20}, engine), b = random_tensor(dtype, {7, 20, 5}, engine);
    run_every_way(registry_, {"MatrixSolve", dtype, {a, b}, {{"adjoint", false}}});
    run_every_way(registry_, {"TriangularSolve", dtype, {a, b}, {{"adjoint", true}, {"lower", true}}});
  }
}

TEST_F(Matrices, DeterminantsAndCofactorsAreThoseOfMinors) {
  std::mt19937_64 engine(1);
  for (std::int64_t n = 0; n <= 5; ++n)
    for (int rank_lost = 0; rank_lost <= std::min<std::int64_t>(n, 3); ++rank_lost) {
      SCOPED_TRACE(fmt::format("{} of rank {}", n, n - rank_lost));
      Tensor x = random_tensor(DType::f64, {n, n}, engine);
      double* const values = x.mutable_data<double>();
      for (int copied = 0; copied < rank_lost; ++copied)  // rows that are multiples of the last, or 0
        for (std::int64_t j = 0; j < n; ++j) values[copied * n + j] = copied + 1 == n ? 0 : 2 * values[(n - 1) * n + j];
      const auto all = doubles(x);
      EXPECT_NEAR(run("Det", x).item<double>(), minor_sum(all, n), 1e-13);
      const Tensor cofactors = run("Cofactors", x);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          EXPECT_NEAR(cofactors.data<double>()[i * n + j],
                      ((i + j) % 2 ? -1 : 1) * minor_sum(without(all, n, i, j), n - 1), 1e-13)
              << i << ' ' << j;
    }
}

TEST_F(Matrices, OfABatchAreComputedOneByOne) {
  std::mt19937_64 engine(2);
  for (DType dtype : kFloats) {
    const Tensor x = random_tensor(dtype, {300, 2, 3, 3}, engine);
    const Tensor det = run("Det", x), inverse = run("MatrixInverse", x);
    ASSERT_EQ(det.shape(), (Shape{300, 2}));
    ASSERT_EQ(inverse.shape(), x.shape());
    const auto xs = doubles(x), dets = doubles(det), inverses = doubles(inverse);
    const double unit = dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 1e-7 : dtype == DType::f16 ? 1e-3 : 8e-3;
    for (std::size_t i = 0; i < dets.size(); ++i) {
      const std::vector<double> one(xs.begin() + static_cast<std::ptrdiff_t>(9 * i),
                                    xs.begin() + static_cast<std::ptrdiff_t>(9 * i + 9));
      const double exact = minor_sum(one, 3);
      ASSERT_NEAR(dets[i], exact, unit) << i << ' ' << name(dtype);
      // inverse(x)[0][0] det(x) is a minor.
      const double want = minor_sum(without(one, 3, 0, 0), 2) / exact;
      ASSERT_NEAR(inverses[9 * i], want, unit * (1 + 20 * std::fabs(want) / std::fabs(exact)))
          << i << ' ' << name(dtype);
    }
  }
  EXPECT_EQ(run("Det", Tensor::zeros(DType::f32, {0, 4, 4})).shape(), (Shape{0}));
  EXPECT_TRUE(bitwise_equal(run("Det", Tensor::zeros(DType::f32, {2, 0, 0})), Tensor::vector<float>({1, 1})));
}

TEST_F(Matrices, KeepNaNAndSayWhatDoesNotFit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(run("Det", Tensor::of<float>({2, 2}, {1, 2, nan, 1})).item<float>()));
  EXPECT_EQ(refused("Det", Tensor::zeros(DType::f32, {2, 3})),
            "x must be square matrices [...,n,n], but its shape is [2,3]");
  refused("Det", Tensor::scalar(1.0f));
  refused("Cofactors", Tensor::zeros(DType::f32, {3}));
  EXPECT_EQ(refused("MatrixInverse", Tensor::of<float>({2, 2}, {1, 2, 2, 4})),
            "MatrixInverse: x is singular: it has no inverse, but pinv() finds a pseudo-inverse");
}

// Larger than a block, and not a multiple of it.
TEST_F(Matrices, OfSeveralBlocksSolveTheirEquations) {
  std::mt19937_64 engine(4);
  for (const std::int64_t n : {63, 64, 65, 150}) {
    SCOPED_TRACE(n);
    const Tensor a = random_tensor(DType::f64, {2, n, n}, engine), b = random_tensor(DType::f64, {2, n, 3}, engine);
    Graph g;
    GraphEvaluator evaluator;
    const Output matrix = constant(g, a), given = constant(g, b);
    const auto far = [&](Output found, Output expected) {
      return evaluator.run(max(abs(found - expected), {})).item<double>();
    };
    for (const bool adjoint : {false, true}) {
      const Output x = matrix_solve(matrix, given, {.adjoint = adjoint});
      EXPECT_LT(far(matmul(matrix, x, {.transpose_a = adjoint}), given), 1e-10);
      for (const bool lower : {true, false}) {
        // With a large diagonal, or solutions grow with 2^n.
        const Output large = set_diag(matrix, diag_part(matrix) + 20);
        const Output part = lower ? tril(large) : triu(large);
        const Output y = triangular_solve(large, given, {.adjoint = adjoint, .lower = lower});
        EXPECT_LT(far(matmul(part, y, {.transpose_a = adjoint}), given), 1e-12) << lower;
      }
    }
    const Output product = matmul(matrix_inverse(matrix), matrix);
    EXPECT_LT(far(product,
                  broadcast_to(eye(constant<std::int64_t>(g, n), constant<std::int64_t>(g, n), {.dtype = DType::f64}),
                               {2, n, n})),
              1e-9);
    const Output squares = matmul(matrix, matrix, {.transpose_b = true});
    const Output l = cholesky(squares);
    EXPECT_LT(far(matmul(l, l, {.transpose_b = true}), squares), 1e-11);
    EXPECT_LT(far(tril(l), l), 0x1p-1000);
    const auto logarithm = [&](Output x) { return evaluator.run(sum(slogdet(x).log_abs)).item<double>(); };
    EXPECT_NEAR(logarithm(squares), 2 * logarithm(matrix), 1e-6);
    for (const char* op : {"MatrixInverse", "Det"}) run(op, a);
  }
}

TEST_F(Matrices, OfWhichTheFirstCannotBeComputedAreNamed) {
  Tensor x = Tensor::zeros(DType::f32, {40, 2, 2, 2});  // in several parts
  for (std::int64_t i = 0; i < 80; ++i)
    for (const std::int64_t diagonal : {0, 3}) x.mutable_data<float>()[4 * i + diagonal] = i == 33 || i == 70 ? 0 : 1;
  EXPECT_EQ(refused("Cholesky", x),
            "Cholesky: x[16,1] is not positive definite: is it symmetric? A small multiple of the identity, added, may "
            "help");
  for (const int threads : {1, 3})
    EXPECT_EQ(
        message_of(
            Code::invalid_argument,
            [&] {
              run_kernel(registry_, *test_device(threads), {"MatrixSolve", DType::f32, {x, x}, {{"adjoint", false}}});
            }),
        "MatrixSolve: a[16,1] is singular: lstsq() finds a solution of least squares");
}

TEST_F(Matrices, DecompositionsAreThoseOfAnyThreads) {
  std::mt19937_64 engine(5);
  for (const DType dtype : kFloats) {
    const Tensor x = random_tensor(dtype, {7, 20, 20}, engine), wide = random_tensor(dtype, {9, 4, 12}, engine);
    const auto every_way = [&](const char* op, const Tensor& given, const Attributes& attributes, std::size_t outputs) {
      run_every_way(registry_, {op, dtype, {given}, attributes, outputs});
    };
    for (const bool full : {false, true}) {
      every_way("Qr", wide, {{"full_matrices", full}}, 2);
      every_way("Svd", wide, {{"full_matrices", full}, {"compute_uv", true}}, 3);
    }
    every_way("Eigh", x, {{"compute_v", true}}, 2);
    every_way("PseudoInverse", x, {{"rtol", -1.0}}, 1);
  }
}

TEST_F(Matrices, ADeterminantHasAGradientWhereItIsZero) {
  Graph graph;
  const Output x = constant(graph, Tensor::of<double>({2, 2}, {1, 2, 2, 4}));
  const Outputs xs{x}, ys{det(x)};
  const Tensor gradient = GraphEvaluator().run(dense(gradients(ys, xs)[0], x));
  EXPECT_TRUE(bitwise_equal(gradient, Tensor::of<double>({2, 2}, {4, -2, -2, 1}))) << gradient.to_string();
}

}  // namespace
}  // namespace troupe
