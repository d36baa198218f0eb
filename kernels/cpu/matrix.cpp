#include "troupe/kernels/cpu/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/decompositions.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/gemm.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

// Multiply-adds at least of a part.
constexpr double kMatrixPart = 1 << 16;
// Rows and columns of blocks: matrices of this size are decomposed row by row.
constexpr std::int64_t kBlock = 64;

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

void swap_rows_for_pivot(Decomposed& d, std::int64_t step, std::int64_t row) {
  if (row == step) return;
  std::swap_ranges(d.row(row), d.row(row) + d.n, d.row(step));
  std::swap(d.rows[row], d.rows[step]);
  d.sign = -d.sign;
}

// Subtracts multiples of row `step` from the rows below, in the columns before `end`.
void eliminate(const Decomposed& d, std::int64_t step, std::int64_t end) {
  const double* const from = d.row(step);
  if (from[step] == 0) return;  // and so is all below it
  for (std::int64_t i = step + 1; i < d.n; ++i) {
    double* const to = d.row(i);
    const double factor = to[step] /= from[step];
    for (std::int64_t j = step + 1; j < end; ++j) to[j] -= factor * from[j];
  }
}

void decompose_completely(Decomposed& d) {
  std::iota(d.rows, d.rows + d.n, 0);
  std::iota(d.columns, d.columns + d.n, 0);
  for (std::int64_t step = 0; step < d.n; ++step) {
    std::int64_t row = step, column = step;
    choose_pivot(d, step, Pivoting::complete, row, column);
    swap_rows_for_pivot(d, step, row);
    if (column != step) {
      for (std::int64_t i = 0; i < d.n; ++i) std::swap(d.row(i)[column], d.row(i)[step]);
      std::swap(d.columns[column], d.columns[step]);
      d.sign = -d.sign;
    }
    eliminate(d, step, d.n);
  }
}

// to -= factor from
void subtract_row(double* __restrict to, const double* __restrict from, double factor, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) to[j] -= factor * from[j];
}

// to -= a b, with a [m,k], b [k,n] and `to` [m,n].
void subtract_product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<double> a, MatrixView<double> b,
                      double* to, std::int64_t stride) {
  if (m == 0 || n == 0 || k == 0) return;
  const ScratchArray<double> product(m * n);
  gemm<double>(m, n, k, a, b, product.data(), n);
  for (std::int64_t i = 0; i < m; ++i) subtract_row(to + i * stride, product.data() + i * n, 1, n);
}

// With row pivots, in blocks of columns, so that most of the work is products of matrices.
void decompose(Decomposed& d) {
  std::iota(d.rows, d.rows + d.n, 0);
  for (std::int64_t begin = 0; begin < d.n; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, d.n), left = d.n - end;
    for (std::int64_t step = begin; step < end; ++step) {
      std::int64_t row = step, column = step;
      choose_pivot(d, step, Pivoting::partial, row, column);
      swap_rows_for_pivot(d, step, row);
      eliminate(d, step, end);
    }
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = begin; j < i; ++j) subtract_row(d.row(i) + end, d.row(j) + end, d.row(i)[j], left);
    subtract_product(left, left, end - begin, {.data = d.row(end) + begin, .stride = d.n},
                     {.data = d.row(begin) + end, .stride = d.n}, d.row(end) + end, d.n);
  }
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

bool find_determinant(Decomposed& d, double*, double* result) {
  decompose(d);
  *result = d.sign;
  for (std::int64_t i = 0; i < d.n; ++i) *result *= d.row(i)[i];
  return true;
}

// Its sign and the logarithm of its magnitude.
bool find_log_determinant(Decomposed& d, double*, double* result) {
  decompose(d);
  double sign = d.sign, sum = 0;
  for (std::int64_t i = 0; i < d.n; ++i) {
    const double pivot = d.row(i)[i];
    sign *= static_cast<double>(pivot > 0) - static_cast<double>(pivot < 0);
    sum += std::log(std::fabs(pivot));  // NaN stays, 0 gives -infinity
  }
  result[0] = sign;
  result[1] = sum;
  return true;
}

// With U = [U1 u; 0 t] and p the product of U1's diagonal: adj(U) = p [t inverse(U1), -inverse(U1) u; 0, 1], and
// adj(x) = sign Q adj(U) inverse(L) P. `x` is scratch of n^2.
bool find_cofactors(Decomposed& d, double* x, double* out) {
  if (d.n == 0) return true;
  decompose_completely(d);
  const std::int64_t last = d.n - 1;
  double product = d.sign;
  for (std::int64_t i = 0; i < last; ++i) product *= d.row(i)[i];
  if (last > 0 && d.row(last - 1)[last - 1] == 0) {  // rank n - 2 or less
    std::fill_n(out, d.n * d.n, 0.0);
    return true;
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
  return true;
}

bool has_zero_on_diagonal(const Decomposed& d) {
  for (std::int64_t i = 0; i < d.n; ++i)
    if (d.row(i)[i] == 0) return true;
  return false;
}

// Calls fn(decomposed, scratch, result), on memory of the thread, for each matrix of x; `fn` sets `results` numbers of
// `out` and returns whether it could. Throws "OP: x[i] REASON" otherwise.
template <class Fn>
void for_each_matrix(Parallelism& parallelism, const Tensor& x, Tensor& out, std::int64_t results, Fn fn,
                     const char* op = "", const char* reason = "") {
  const std::int64_t n = x.shape()[-1], size = n * n;
  const Shape batch = det_shape(x.shape());
  const std::int64_t count = batch.num_elements();
  const std::int64_t grain = matrix_grain(static_cast<double>(size) * static_cast<double>(n));
  FirstMatrix failed(count);
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
        if (!fn(d, work.data(), result.data())) {
          failed.note(index);
          continue;
        }
        for (std::int64_t i = 0; i < results; ++i)
          to[index * results + i] = static_cast<T>(static_cast<Compute<T>>(result[i]));
      }
    });
  });
  if (failed.any()) invalid_argument("{}: {} {}", op, failed.name("x", batch), reason);
}

enum class Triangle { lower, unit_lower, upper };

// Solves T x = x for this triangle T of a matrix, or T^T x = x; x has k columns.
void solve_triangle(const double* t, std::int64_t n, Triangle triangle, bool adjoint, double* x, std::int64_t k) {
  const bool forward = (triangle != Triangle::upper) != adjoint;
  const auto element = [&](std::int64_t i, std::int64_t j) { return adjoint ? t[j * n + i] : t[i * n + j]; };
  for (std::int64_t solved = 0; solved < n; solved += kBlock) {
    const std::int64_t size = std::min(kBlock, n - solved);
    const std::int64_t begin = forward ? solved : n - solved - size, known = forward ? 0 : n - solved;
    const double* const part = adjoint ? t + known * n + begin : t + begin * n + known;
    subtract_product(size, k, solved, {.data = part, .stride = n, .transposed = adjoint},
                     {.data = x + known * k, .stride = k}, x + begin * k, k);
    for (std::int64_t step = 0; step < size; ++step) {
      const std::int64_t i = forward ? begin + step : begin + size - 1 - step;
      for (std::int64_t other = 0; other < step; ++other) {
        const std::int64_t j = forward ? begin + other : begin + size - 1 - other;
        subtract_row(x + i * k, x + j * k, element(i, j), k);
      }
      if (triangle == Triangle::unit_lower) continue;
      for (std::int64_t c = 0; c < k; ++c) x[i * k + c] /= element(i, i);
    }
  }
}

// x := inverse of the decomposed matrix, or of its transpose, times x; `work` has room for x.
// Returns whether there is one.
bool solve_decomposed(Decomposed& d, bool adjoint, double* x, double* work, std::int64_t k) {
  decompose(d);
  if (has_zero_on_diagonal(d)) return false;
  if (adjoint) {
    solve_triangle(d.lu, d.n, Triangle::upper, true, x, k);
    solve_triangle(d.lu, d.n, Triangle::unit_lower, true, x, k);
    for (std::int64_t i = 0; i < d.n; ++i) std::copy_n(x + i * k, k, work + d.rows[i] * k);
  } else {
    for (std::int64_t i = 0; i < d.n; ++i) std::copy_n(x + d.rows[i] * k, k, work + i * k);
    solve_triangle(d.lu, d.n, Triangle::unit_lower, false, work, k);
    solve_triangle(d.lu, d.n, Triangle::upper, false, work, k);
  }
  std::copy_n(work, d.n * k, x);
  return true;
}

bool invert(Decomposed& d, double* work, double* out) {
  std::fill_n(out, d.n * d.n, 0.0);
  for (std::int64_t i = 0; i < d.n; ++i) out[i * d.n + i] = 1;
  return solve_decomposed(d, false, out, work, d.n);
}

// The lower triangle of x becomes L with x = L L^T, in blocks of columns; above it are zeros.
bool find_cholesky(Decomposed& d, double*, double* out) {
  for (std::int64_t begin = 0; begin < d.n; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, d.n);
    for (std::int64_t i = begin; i < d.n; ++i) {
      double* const row = d.row(i);
      for (std::int64_t j = begin; j < std::min(i + 1, end); ++j) {
        double sum = row[j];
        for (std::int64_t c = begin; c < j; ++c) sum -= row[c] * d.row(j)[c];
        if (j < i) {
          row[j] = sum / d.row(j)[j];
        } else if (sum > 0 || std::isnan(sum)) {
          row[j] = std::sqrt(sum);
        } else {
          return false;
        }
      }
    }
    for (std::int64_t top = end; top < d.n; top += kBlock) {
      const std::int64_t bottom = std::min(top + kBlock, d.n);
      subtract_product(bottom - top, bottom - end, end - begin, {.data = d.row(top) + begin, .stride = d.n},
                       {.data = d.row(end) + begin, .stride = d.n, .transposed = true}, d.row(top) + end, d.n);
    }
  }
  for (std::int64_t i = 0; i < d.n; ++i) std::fill(d.row(i) + i + 1, d.row(i) + d.n, 0.0);
  std::copy_n(d.lu, d.n * d.n, out);
  return true;
}

// Calls solve(decomposed a, b, scratch) for the matrices a [...,n,n] and b [...,n,k]: b becomes the result. `solve`
// returns whether there is one.
template <class Solve>
Tensor solve_each(KernelContext& c, const char* op, const char* reason, Solve solve) {
  const Tensor &a = c.input(0), &b = c.input(1);
  const Shape batch = det_shape(a.shape());
  const int rank = a.shape().rank();
  if (b.shape().rank() != rank || b.shape().sub(0, rank - 1) != a.shape().sub(0, rank - 1))
    invalid_argument("{}: matrices {} do not fit those of {}", op, b.shape().to_string(), a.shape().to_string());
  const std::int64_t n = a.shape()[-1], k = b.shape()[-1];
  Tensor out = c.allocate(b.dtype(), b.shape());
  const std::int64_t grain = matrix_grain(static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n + k));
  FirstMatrix failed(batch.num_elements());
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
        if (!solve(d, x.data(), work.data(), k)) {
          failed.note(i);
          continue;
        }
        for (std::int64_t e = 0; e < n * k; ++e) to[i * n * k + e] = static_cast<T>(static_cast<Compute<T>>(x[e]));
      }
    });
  });
  if (failed.any()) invalid_argument("{}: {} {}", op, failed.name("a", batch), reason);
  return out;
}

Kernel make_matrix_solve(const KernelInit& init) {
  return [adjoint = init.attributes.boolean("adjoint")](KernelContext& c) {
    const auto solve = [&](Decomposed& d, double* x, double* work, std::int64_t k) {
      return solve_decomposed(d, adjoint, x, work, k);
    };
    c.set_output(0, solve_each(c, "MatrixSolve", "is singular: lstsq() finds a solution of least squares", solve));
  };
}
Kernel make_triangular_solve(const KernelInit& init) {
  return [lower = init.attributes.boolean("lower"), adjoint = init.attributes.boolean("adjoint")](KernelContext& c) {
    const auto solve = [&](const Decomposed& d, double* x, double*, std::int64_t k) {
      if (has_zero_on_diagonal(d)) return false;
      solve_triangle(d.lu, d.n, lower ? Triangle::lower : Triangle::upper, adjoint, x, k);
      return true;
    };
    c.set_output(0, solve_each(c, "TriangularSolve", "is singular: there is a 0 on its diagonal", solve));
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

std::int64_t matrix_grain(double cost) { return static_cast<std::int64_t>(std::max(1.0, kMatrixPart / (cost + 16))); }

void FirstMatrix::note(std::int64_t index) {
  std::int64_t known = first_;
  while (index < known && !first_.compare_exchange_weak(known, index)) {
  }
}

std::string FirstMatrix::name(std::string_view input, const Shape& batch) const {
  if (batch.rank() == 0) return std::string(input);
  Shape place = batch;
  std::int64_t rest = first_;
  for (int i = batch.rank(); i-- > 0; rest /= batch[i]) place.set_dim(i, rest % batch[i]);
  return std::string(input) + place.to_string();
}

Shape det_shape(const Shape& matrices) {
  const int rank = matrices.rank();
  if (rank < 2 || matrices[-1] != matrices[-2])
    invalid_argument("x must be square matrices [...,n,n], but its shape is {}", matrices.to_string());
  return matrices.sub(0, rank - 2);
}

void determinants(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("Det: the output", out, x.dtype(), det_shape(x.shape()));
  for_each_matrix(parallelism, x, out, 1, find_determinant);
}

void log_determinants(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("LogDet: the output", out, x.dtype(), det_shape(x.shape()).concatenated(Shape{2}));
  for_each_matrix(parallelism, x, out, 2, find_log_determinant);
}

void cofactors(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("Cofactors: the output", out, x.dtype(), x.shape());
  det_shape(x.shape());
  for_each_matrix(parallelism, x, out, x.shape()[-1] * x.shape()[-1], find_cofactors);
}

void cholesky_factors(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("Cholesky: the output", out, x.dtype(), x.shape());
  det_shape(x.shape());
  for_each_matrix(parallelism, x, out, x.shape()[-1] * x.shape()[-1], find_cholesky, "Cholesky",
                  "is not positive definite: is it symmetric? A small multiple of the identity, added, may help");
}

void inverses(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  check_tensor("MatrixInverse: the output", out, x.dtype(), x.shape());
  det_shape(x.shape());
  for_each_matrix(parallelism, x, out, x.shape()[-1] * x.shape()[-1], invert, "MatrixInverse",
                  "is singular: it has no inverse, but pinv() finds a pseudo-inverse");
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
  add_decomposition_kernels(registry);
}

}  // namespace troupe
