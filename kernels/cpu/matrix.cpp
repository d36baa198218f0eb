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
  registry.add({"MatrixInverse", "CPU", types, make_matrix_kernel<inverses, true>});
}

}  // namespace troupe
