// Singular values and vectors by one-sided Jacobi rotations (Hestenes 1958; Demmel & Veselic, "Jacobi's method is more
// accurate than QR", 1992): they turn the rows of a matrix until all are orthogonal. Eigenvectors of the products of
// the rows come close at once, so that few rotations are left.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <troupe/kernels/cpu/decompositions.hpp>
#include <troupe/kernels/cpu/gemm.hpp>
#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

// Rotations end once all pairs of rows have been found orthogonal: far below this number of sweeps.
constexpr int kMaxSweeps = 60;
// Squares below are inexact; such rows, of a matrix with elements near 1, count as 0.
constexpr double kTinySquare = 1e-290;

// The rows of a matrix [k,length] that is turned, x = rotation' rows, with `rotation` [k,k].
struct JacobiRows {
  double* rows = nullptr;
  double* rotation = nullptr;  // null: not wanted
  double* squares = nullptr;   // [k], of the norms of the rows
  std::int64_t k = 0, length = 0;

  double* row(std::int64_t i) const { return rows + i * length; }
};

double dot(const double* a, const double* b, std::int64_t n) {
  return sum_of<double>(n, [=](std::int64_t i) { return a[i] * b[i]; });
}

// a = c a - s b, b = s a + c b
void rotate(double* __restrict a, double* __restrict b, std::int64_t n, double c, double s) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    a[i] = c * x - s * y;
    b[i] = s * x + c * y;
  }
}

void find_square(const JacobiRows& x, std::int64_t i) {
  x.squares[i] = dot(x.row(i), x.row(i), x.length);
  if (x.squares[i] >= kTinySquare) return;
  std::fill_n(x.row(i), x.length, 0.0);
  x.squares[i] = 0;
}

// Makes rows i and j orthogonal; false if they are.
bool turn(const JacobiRows& x, std::int64_t i, std::int64_t j, double tolerance) {
  const double product = dot(x.row(i), x.row(j), x.length);
  if (std::fabs(product) <= tolerance * std::sqrt(x.squares[i]) * std::sqrt(x.squares[j])) return false;
  const double zeta = (x.squares[j] - x.squares[i]) / (2 * product);
  const double tangent = std::copysign(1.0, zeta) / (std::fabs(zeta) + std::hypot(1.0, zeta));
  const double c = 1 / std::sqrt(1 + tangent * tangent), s = c * tangent;
  rotate(x.row(i), x.row(j), x.length, c, s);
  if (x.rotation) rotate(x.rotation + i * x.k, x.rotation + j * x.k, x.k, c, s);
  find_square(x, i);
  find_square(x, j);
  return true;
}

bool make_orthogonal(const JacobiRows& x) {
  const double tolerance = std::numeric_limits<double>::epsilon() * std::sqrt(static_cast<double>(x.length));
  for (std::int64_t i = 0; i < x.k; ++i) find_square(x, i);
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool turned = false;
    for (std::int64_t i = 0; i < x.k; ++i)
      for (std::int64_t j = i + 1; j < x.k; ++j) turned |= turn(x, i, j, tolerance);
    if (!turned) return true;
  }
  return false;
}

// Turns rows, which stand in `from`, by the eigenvectors of their products, the largest first.
bool turn_by_eigenvectors(const double* from, const JacobiRows& x, double* rotation) {
  const ScratchArray<double> products(x.k * x.k), vectors(x.k * x.k), values(x.k);
  const MatrixView<double> rows{.data = from, .stride = x.length};
  gemm<double>(x.k, x.k, x.length, rows, {.data = from, .stride = x.length, .transposed = true}, products.data(), x.k);
  if (!find_eigh(products.data(), x.k, values.data(), vectors.data())) return false;
  for (std::int64_t i = 0; i < x.k; ++i)
    for (std::int64_t j = 0; j < x.k; ++j) rotation[i * x.k + j] = vectors[j * x.k + x.k - 1 - i];
  gemm<double>(x.k, x.length, x.k, {.data = rotation, .stride = x.k}, rows, x.rows, x.length);
  return true;
}

// Unit vectors along the rows in this order, as columns of [length,columns]; orthonormal ones for rows of 0 and for
// columns beyond the rows.
void find_units(const JacobiRows& x, const std::int64_t* order, std::int64_t columns, double* out) {
  std::int64_t known = 0;
  while (known < x.k && x.squares[order[known]] > 0) ++known;
  const auto fill = [&](double* to, std::int64_t stride) {
    for (std::int64_t i = 0; i < known; ++i) {
      const double norm = std::sqrt(x.squares[order[i]]);
      for (std::int64_t j = 0; j < x.length; ++j) to[j * stride + i] = x.row(order[i])[j] / norm;
    }
  };
  if (known < columns) {
    if (known == 0) {
      std::fill_n(out, x.length * columns, 0.0);
      for (std::int64_t i = 0; i < columns; ++i) out[i * columns + i] = 1;
      return;
    }
    const ScratchArray<double> units(x.length * known);
    fill(units.data(), known);
    find_qr(units.data(), x.length, known, columns, out, nullptr);
  }
  fill(out, columns);
}

void transpose_matrix(const double* from, std::int64_t rows, std::int64_t columns, double* to) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

}  // namespace

bool find_svd(const double* a, std::int64_t m, std::int64_t n, bool full, double* u, double* s, double* vh) {
  const bool tall = m >= n;
  const std::int64_t k = std::min(m, n), length = std::max(m, n), columns = full ? length : k;
  const ScratchArray<double> given(k * length), rows(k * length), rotation(k * k), squares(k);
  const ScratchArray<std::int64_t> order(k);
  double scale = 0;
  for (std::int64_t i = 0; i < m * n; ++i) scale = std::max(scale, std::fabs(a[i]));
  if (scale == 0) scale = 1;
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < length; ++j) given[i * length + j] = (tall ? a[j * n + i] : a[i * n + j]) / scale;

  const JacobiRows x{.rows = rows.data(),
                     .rotation = u ? rotation.data() : nullptr,
                     .squares = squares.data(),
                     .k = k,
                     .length = length};
  if (!turn_by_eigenvectors(given.data(), x, rotation.data()) || !make_orthogonal(x)) return false;
  std::iota(order.data(), order.data() + k, 0);
  std::stable_sort(order.data(), order.data() + k,
                   [&](std::int64_t i, std::int64_t j) { return squares[i] > squares[j]; });
  for (std::int64_t i = 0; i < k; ++i) s[i] = std::sqrt(squares[order[i]]) * scale;
  if (!u) return true;

  // The rows of a tall matrix are its columns: the vectors that are long are those of u.
  if (tall) {
    find_units(x, order.data(), columns, u);
    for (std::int64_t i = 0; i < k; ++i) std::copy_n(rotation.data() + order[i] * k, k, vh + i * k);
  } else {
    const ScratchArray<double> units(length * columns);
    find_units(x, order.data(), columns, units.data());
    transpose_matrix(units.data(), length, columns, vh);
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < k; ++j) u[j * k + i] = rotation[order[i] * k + j];
  }
  return true;
}

}  // namespace troupe
