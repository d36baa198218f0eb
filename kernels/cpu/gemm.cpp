#include "kernels/cpu/gemm.hpp"

#include <dnnl.h>

#include <algorithm>
#include <type_traits>

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "kernels/cpu/openmp_guard.hpp"
#include "messages/error.hpp"

namespace troupe {
namespace {

void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b,
             float* c, std::int64_t c_stride, bool accumulate) {
  const OpenMpGuard guard;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data, a.stride, b.data,
                 b.stride, accumulate ? 1.0f : 0.0f, c, c_stride);
  if (status != dnnl_success)
    fail(Code::internal, "oneDNN's sgemm of {}x{}x{} failed with status {}", m, k, n,
         static_cast<int>(status));
}

void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<double> a, MatrixView<double> b,
             double* c, std::int64_t c_stride, bool accumulate) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Input = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
  const Input left(a.data, a.transposed ? k : m, a.transposed ? m : k, Eigen::OuterStride<>(a.stride));
  const Input right(b.data, b.transposed ? n : k, b.transposed ? k : n, Eigen::OuterStride<>(b.stride));
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> out(c, m, n, Eigen::OuterStride<>(c_stride));
  if (!accumulate) out.setZero();
  if (a.transposed && b.transposed)
    out.noalias() += left.transpose() * right.transpose();
  else if (a.transposed)
    out.noalias() += left.transpose() * right;
  else if (b.transposed)
    out.noalias() += left * right.transpose();
  else
    out.noalias() += left * right;
}

// Integers, in unsigned arithmetic: overflow wraps instead of being undefined.
template <class T>
void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
             std::int64_t c_stride, bool accumulate) {
  using U = std::make_unsigned_t<T>;
  for (std::int64_t i = 0; i < m; ++i) {
    T* row = c + i * c_stride;
    if (!accumulate) std::fill_n(row, n, T{0});
    for (std::int64_t p = 0; p < k; ++p) {
      const U factor = static_cast<U>(a.transposed ? a.data[p * a.stride + i] : a.data[i * a.stride + p]);
      const T* values = b.transposed ? b.data + p : b.data + p * b.stride;
      const std::int64_t step = b.transposed ? b.stride : 1;
      for (std::int64_t j = 0; j < n; ++j)
        row[j] = static_cast<T>(static_cast<U>(row[j]) + factor * static_cast<U>(values[j * step]));
    }
  }
}

}  // namespace

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
          std::int64_t c_stride, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate)
      for (std::int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, T{0});
    return;
  }
  product(m, n, k, a, b, c, c_stride, accumulate);
}

template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*,
                   std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                   std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::int32_t>,
                   MatrixView<std::int32_t>, std::int32_t*, std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::int64_t>,
                   MatrixView<std::int64_t>, std::int64_t*, std::int64_t, bool);

}  // namespace troupe
