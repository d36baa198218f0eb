#include "troupe/kernels/cpu/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

// Multiply-adds at least of a part.
constexpr double kMatrixPart = 1 << 16;

// P x Q = L U, where L has a unit diagonal: both in `lu`, which was x. Row i of P x is row rows[i] of x, column j of x
// Q is column columns[j].
struct Decomposed {
  double* lu = nullptr;
  std::int64_t n = 0;
  std::int64_t* rows = nullptr;
  std::int64_t* columns = nullptr;
  double sign = 1;  // of both permutations

  double* row(std::int64_t i) const { return lu + i * n; }
};

enum class Pivoting { partial, complete };

// Where the largest element that is left lies; a NaN counts as the largest, so that it stays.
void choose_pivot(const Decomposed& d, std::int64_t step, Pivoting pivoting, std::int64_t& row, std::int64_t& column) {
  double best = -1;
  const std::int64_t last = pivoting == Pivoting::complete ? d.n : step + 1;
  for (std::int64_t i = step; i < d.n; ++i)
    for (std::int64_t j = step; j < last; ++j) {
      const double size = std::fabs(d.row(i)[j]);
      if (size <= best) continue;
      row = i;
      column = j;
      if (std::isnan(size)) return;
      best = size;
    }
}

void decompose(Decomposed& d, Pivoting pivoting) {
  std::iota(d.rows, d.rows + d.n, 0);
  std::iota(d.columns, d.columns + d.n, 0);
  for (std::int64_t step = 0; step < d.n; ++step) {
    std::int64_t row = step, column = step;
    choose_pivot(d, step, pivoting, row, column);
    if (row != step) {
      std::swap_ranges(d.row(row), d.row(row) + d.n, d.row(step));
      std::swap(d.rows[row], d.rows[step]);
      d.sign = -d.sign;
    }
    if (column != step) {
      for (std::int64_t i = 0; i < d.n; ++i) std::swap(d.row(i)[column], d.row(i)[step]);
      std::swap(d.columns[column], d.columns[step]);
      d.sign = -d.sign;
    }
    const double* const from = d.row(step);
    if (from[step] == 0) continue;  // and so is all below it
    for (std::int64_t i = step + 1; i < d.n; ++i) {
      double* const to = d.row(i);
      const double factor = to[step] /= from[step];
      for (std::int64_t j = step + 1; j < d.n; ++j) to[j] -= factor * from[j];
    }
  }
}

// to -= factor from
void subtract_row(double* __restrict to, const double* __restrict from, double factor, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) to[j] -= factor * from[j];
}

// x = inverse(L).
void invert_lower(const Decomposed& d, double* x) {
  std::fill_n(x, d.n * d.n, 0.0);
  for (std::int64_t i = 0; i < d.n; ++i) {
    x[i * d.n + i] = 1;
    for (std::int64_t j = 0; j < i; ++j) subtract_row(x + i * d.n, x + j * d.n, d.row(i)[j], j + 1);
  }
}

// Solves the first `size` rows of U x = x.
void solve_upper(const Decomposed& d, double* x, std::int64_t size) {
  for (std::int64_t i = size; i-- > 0;) {
    double* const row = x + i * d.n;
    for (std::int64_t j = i + 1; j < size; ++j) subtract_row(row, x + j * d.n, d.row(i)[j], d.n);
    for (std::int64_t c = 0; c < d.n; ++c) row[c] /= d.row(i)[i];
  }
}

double determinant(Decomposed& d) {
  decompose(d, Pivoting::partial);
  double product = d.sign;
  for (std::int64_t i = 0; i < d.n; ++i) product *= d.row(i)[i];
  return product;
}

// Its sign and the logarithm of its magnitude.
void log_determinant(Decomposed& d, double*, double* result) {
  decompose(d, Pivoting::partial);
  double sign = d.sign, sum = 0;
  for (std::int64_t i = 0; i < d.n; ++i) {
    const double pivot = d.row(i)[i];
    sign *= static_cast<double>(pivot > 0) - static_cast<double>(pivot < 0);
    sum += std::log(std::fabs(pivot));  // NaN stays, 0 gives -infinity
  }
  result[0] = sign;
  result[1] = sum;
}

// With U = [U1 u; 0 t] and p the product of U1's diagonal: adj(U) = p [t inverse(U1), -inverse(U1) u; 0, 1], and
// adj(x) = sign Q adj(U) inverse(L) P. `x` is scratch of n^2.
void find_cofactors(Decomposed& d, double* x, double* out) {
  if (d.n == 0) return;
  decompose(d, Pivoting::complete);
  const std::int64_t last = d.n - 1;
  double product = d.sign;
  for (std::int64_t i = 0; i < last; ++i) product *= d.row(i)[i];
  if (last > 0 && d.row(last - 1)[last - 1] == 0) {  // rank n - 2 or less
    std::fill_n(out, d.n * d.n, 0.0);
    return;
  }
  invert_lower(d, x);
  const double t = d.row(last)[last];
  double* const bottom = x + last * d.n;
  for (std::int64_t i = 0; i < last; ++i)
    for (std::int64_t c = 0; c < d.n; ++c) x[i * d.n + c] = product * (t * x[i * d.n + c] - d.row(i)[last] * bottom[c]);
  for (std::int64_t c = 0; c < d.n; ++c) bottom[c] *= product;
  solve_upper(d, x, last);
  for (std::int64_t i = 0; i < d.n; ++i)
    for (std::int64_t c = 0; c < d.n; ++c) out[d.rows[c] * d.n + d.columns[i]] = x[i * d.n + c];
}

void invert(Decomposed& d, double* x, double* out) {
  decompose(d, Pivoting::partial);
  for (std::int64_t i = 0; i < d.n; ++i)
    if (d.row(i)[i] == 0) invalid_argument("MatrixInverse: a matrix is singular");
  invert_lower(d, x);
  solve_upper(d, x, d.n);
  for (std::int64_t i = 0; i < d.n; ++i)
    for (std::int64_t c = 0; c < d.n; ++c) out[i * d.n + d.rows[c]] = x[i * d.n + c];
}

// Calls fn(decomposed, scratch, result), on memory of the thread, for each matrix of x; `fn` sets `results` numbers of
// `out`.
template <class Fn>
void for_each_matrix(Parallelism& parallelism, const Tensor& x, Tensor& out, std::int64_t results, Fn fn) {
  const std::int64_t n = x.shape()[-1], size = n * n;
  const std::int64_t count = det_shape(x.shape()).num_elements();
  const auto cost = static_cast<double>(size) * static_cast<double>(n);
  const auto grain = static_cast<std::int64_t>(std::max(1.0, kMatrixPart / (cost + 16)));
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T* const from = x.data<T>();
    T* const to = out.mutable_data<T>();
    parallelism.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      const ScratchArray<double> lu(size), work(size), result(results);
      const ScratchArray<std::int64_t> permutations(2 * n);
      for (std::int64_t index = begin; index < end; ++index) {
        for (std::int64_t i = 0; i < size; ++i)
          lu[i] = static_cast<double>(static_cast<Compute<T>>(from[index * size + i]));
        Decomposed d{.lu = lu.data(), .n = n, .rows = permutations.data(), .columns = permutations.data() + n};
        fn(d, work.data(), result.data());
        for (std::int64_t i = 0; i < results; ++i)
          to[index * results + i] = static_cast<T>(static_cast<Compute<T>>(result[i]));
      }
    });
  });
}

// Solves L x = x for a lower triangular L, or L^T x = x; x has k columns.
void solve_lower(const double* l, std::int64_t n, bool adjoint, bool unit, double* x, std::int64_t k) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = adjoint ? n - 1 - step : step;
    double* const row = x + i * k;
    for (std::int64_t other = 0; other < step; ++other) {
      const std::int64_t j = adjoint ? n - 1 - other : other;
      subtract_row(row, x + j * k, adjoint ? l[j * n + i] : l[i * n + j], k);
    }
    if (!unit)
      for (std::int64_t c = 0; c < k; ++c) row[c] /= l[i * n + i];
  }
}
// The same for an upper triangular matrix.
void solve_upper(const double* u, std::int64_t n, bool adjoint, double* x, std::int64_t k) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = adjoint ? step : n - 1 - step;
    double* const row = x + i * k;
    for (std::int64_t other = 0; other < step; ++other) {
      const std::int64_t j = adjoint ? other : n - 1 - other;
      subtract_row(row, x + j * k, adjoint ? u[j * n + i] : u[i * n + j], k);
    }
    for (std::int64_t c = 0; c < k; ++c) row[c] /= u[i * n + i];
  }
}

// x := inverse of the decomposed matrix, or of its transpose, times x; `work` has room for x.
void solve_decomposed(Decomposed& d, bool adjoint, double* x, double* work, std::int64_t k) {
  decompose(d, Pivoting::partial);
  for (std::int64_t i = 0; i < d.n; ++i)
    if (d.row(i)[i] == 0) invalid_argument("MatrixSolve: a matrix is singular");
  if (adjoint) {
    solve_upper(d.lu, d.n, true, x, k);
    solve_lower(d.lu, d.n, true, true, x, k);
    for (std::int64_t i = 0; i < d.n; ++i) std::copy_n(x + i * k, k, work + d.rows[i] * k);
  } else {
    for (std::int64_t i = 0; i < d.n; ++i) std::copy_n(x + d.rows[i] * k, k, work + i * k);
    solve_lower(d.lu, d.n, false, true, work, k);
    solve_upper(d.lu, d.n, false, work, k);
  }
  std::copy_n(work, d.n * k, x);
}

// The lower triangle of x becomes L with x = L L^T; above it are zeros.
void find_cholesky(Decomposed& d, double*, double* out) {
  for (std::int64_t i = 0; i < d.n; ++i) {
    double* const row = d.row(i);
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = row[j];
      for (std::int64_t c = 0; c < j; ++c) sum -= row[c] * d.row(j)[c];
      if (j < i) {
        row[j] = sum / d.row(j)[j];
      } else if (sum > 0 || std::isnan(sum)) {
        row[j] = std::sqrt(sum);
      } else {
        invalid_argument("Cholesky: a matrix is not positive definite");
      }
    }
    std::fill(row + i + 1, row + d.n, 0.0);
  }
  std::copy_n(d.lu, d.n * d.n, out);
}

// Calls solve(decomposed a, b, scratch) for the matrices a [...,n,n] and b [...,n,k]: b becomes the result.
template <class Solve>
Tensor solve_each(KernelContext& c, const char* op, Solve solve) {
  const Tensor &a = c.input(0), &b = c.input(1);
  const Shape batch = det_shape(a.shape());
  const int rank = a.shape().rank();
  if (b.shape().rank() != rank || b.shape().sub(0, rank - 1) != a.shape().sub(0, rank - 1))
    invalid_argument("{}: matrices {} do not fit those of {}", op, b.shape().to_string(), a.shape().to_string());
  const std::int64_t n = a.shape()[-1], k = b.shape()[-1];
  Tensor out = c.allocate(b.dtype(), b.shape());
  const auto cost = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n + k);
  const auto grain = static_cast<std::int64_t>(std::max(1.0, kMatrixPart / (cost + 16)));
  dispatch(FloatTypes{}, a.dtype(), [&]<class T>() {
    const auto widen = [](const T* from, std::int64_t count, double* to) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(static_cast<Compute<T>>(from[i]));
    };
    T* const to = out.mutable_data<T>();
    c.parallelism().parallel_for(batch.num_elements(), grain, [&](std::int64_t begin, std::int64_t end) {
      const ScratchArray<double> matrix(n * n), x(n * k), work(n * k);
      const ScratchArray<std::int64_t> permutations(2 * n);
      for (std::int64_t i = begin; i < end; ++i) {
        widen(a.data<T>() + i * n * n, n * n, matrix.data());
        widen(b.data<T>() + i * n * k, n * k, x.data());
        Decomposed d{.lu = matrix.data(), .n = n, .rows = permutations.data(), .columns = permutations.data() + n};
        solve(d, x.data(), work.data(), k);
        for (std::int64_t e = 0; e < n * k; ++e) to[i * n * k + e] = static_cast<T>(static_cast<Compute<T>>(x[e]));
      }
    });
  });
  return out;
}

Kernel make_matrix_solve(const KernelInit& init) {
  return [adjoint = init.attributes.boolean("adjoint")](KernelContext& c) {
    c.set_output(0, solve_each(c, "MatrixSolve", [&](Decomposed& d, double* x, double* work, std::int64_t k) {
                   solve_decomposed(d, adjoint, x, work, k);
                 }));
  };
}
Kernel make_triangular_solve(const KernelInit& init) {
  return [lower = init.attributes.boolean("lower"), adjoint = init.attributes.boolean("adjoint")](KernelContext& c) {
    c.set_output(0, solve_each(c, "TriangularSolve", [&](const Decomposed& d, double* x, double*, std::int64_t k) {
                   for (std::int64_t i = 0; i < d.n; ++i)
                     if (d.row(i)[i] == 0) invalid_argument("TriangularSolve: a matrix is singular");
                   lower ? solve_lower(d.lu, d.n, adjoint, false, x, k) : solve_upper(d.lu, d.n, adjoint, x, k);
                 }));
  };
}

using MatrixFunction = void (*)(Parallelism&, const Tensor&, Tensor&);

template <MatrixFunction function, bool square>
Kernel make_matrix_kernel(const KernelInit&) {
  return [](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const Shape shape = det_shape(x.shape());
    Tensor out = ctx.allocate(x.dtype(), square ? x.shape() : shape);
    function(ctx.parallelism(), x, out);
    ctx.set_output(0, std::move(out));
  };
}

}  // namespace

Shape det_shape(const Shape& matrices) {
  const int rank = matrices.rank();
  if (rank < 2 || matrices[-1] != matrices[-2])
    invalid_argument("x must be square matrices [...,n,n], but its shape is {}", matrices.to_string());
  return matrices.sub(0, rank - 2);
}

void determinants(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("Det: the output", out, x.dtype(), det_shape(x.shape()));
  for_each_matrix(parallelism, x, out, 1, [](Decomposed& d, double*, double* result) { *result = determinant(d); });
}

void log_determinants(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("LogDet: the output", out, x.dtype(), det_shape(x.shape()).concatenated(Shape{2}));
  for_each_matrix(parallelism, x, out, 2, log_determinant);
}

void cofactors(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("Cofactors: the output", out, x.dtype(), x.shape());
  det_shape(x.shape());
  for_each_matrix(parallelism, x, out, x.shape()[-1] * x.shape()[-1], find_cofactors);
}

void cholesky_factors(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("Cholesky: the output", out, x.dtype(), x.shape());
  det_shape(x.shape());
  for_each_matrix(parallelism, x, out, x.shape()[-1] * x.shape()[-1], find_cholesky);
}

void inverses(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("MatrixInverse: the output", out, x.dtype(), x.shape());
  det_shape(x.shape());
  for_each_matrix(parallelism, x, out, x.shape()[-1] * x.shape()[-1], invert);
}

void register_matrix_kernels(KernelRegistry& registry) {
  const std::vector<DType> types = dtypes_of(FloatTypes{});
  registry.add({"Det", "CPU", types, make_matrix_kernel<determinants, false>});
  registry.add({"LogDet", "CPU", types, [](const KernelInit&) -> Kernel {
                  return [](KernelContext& c) {
                    const Tensor& x = c.input(0);
                    Tensor out = c.device().allocator().tensor(x.dtype(), det_shape(x.shape()).concatenated(Shape{2}));
                    log_determinants(c.parallelism(), x, out);
                    const std::vector<Tensor> both = unstack(c.device(), out, -1, 2);
                    for (int i = 0; i < 2; ++i) c.set_output(i, both[static_cast<std::size_t>(i)]);
                  };
                }});
  registry.add({"Cofactors", "CPU", types, make_matrix_kernel<cofactors, true>});
  registry.add({"Cholesky", "CPU", types, make_matrix_kernel<cholesky_factors, true>});
  registry.add({"MatrixSolve", "CPU", types, make_matrix_solve});
  registry.add({"TriangularSolve", "CPU", types, make_triangular_solve});
  registry.add({"MatrixInverse", "CPU", types, make_matrix_kernel<inverses, true>});
}

}  // namespace troupe
