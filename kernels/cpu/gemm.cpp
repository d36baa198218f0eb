#include "troupe/kernels/cpu/gemm.hpp"

#include <dnnl.h>

#include <algorithm>
#include <type_traits>

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <troupe/kernels/cpu/gemm_table.hpp>
#include <troupe/kernels/cpu/onednn.hpp>
#include <troupe/kernels/cpu/openmp_guard.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

onednn::Primitive make_product(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_stride,
                               bool a_transposed, std::int64_t b_stride, bool b_transposed, std::int64_t c_stride) {
  using Desc = dnnl::memory::desc;
  const auto strides = [](std::int64_t stride, bool transposed) {
    return transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  };
  const auto type = onednn::data_type(dtype);
  const Desc a({m, k}, type, strides(a_stride, a_transposed)), b({k, n}, type, strides(b_stride, b_transposed)),
      c({m, n}, type, strides(c_stride, false));
  const dnnl::matmul::primitive_desc described({a, b, c}, onednn::own_scratchpad(), onednn::engine());
  onednn::Primitive out;
  out.add(DNNL_ARG_SRC, a);
  out.add(DNNL_ARG_WEIGHTS, b);
  out.add(DNNL_ARG_DST, c);
  out.set(dnnl::matmul(described), described.scratchpad_desc());
  return out;
}

// float and BFloat16
template <class T>
void by_primitive(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                  std::int64_t c_stride) {
  thread_local onednn::Cache<onednn::Primitive, 7> primitives;
  const std::int64_t kind = dtype_of<T> == DType::bf16 ? 4 : 0;
  onednn::Primitive& primitive = primitives.get(
      {kind + (a.transposed ? 2 : 0) + (b.transposed ? 1 : 0), m, n, k, a.stride, b.stride, c_stride},
      [&] { return make_product(dtype_of<T>, m, n, k, a.stride, a.transposed, b.stride, b.transposed, c_stride); });
  void* const data[] = {const_cast<T*>(a.data), const_cast<T*>(b.data), c};
  primitive.run(data);
}

void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
             std::int64_t c_stride, bool accumulate) {
  const GemmLibrary library =
      accumulate ? GemmLibrary::onednn_sgemm : gemm_library(m, n, k, a.transposed, b.transposed);
  if (library == GemmLibrary::own_loop) return gemm_cached(m, n, k, a, b, c, c_stride);
  if (library == GemmLibrary::onednn_primitive) return by_primitive(m, n, k, a, b, c, c_stride);
  const OpenMpGuard guard;
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data,
                                          a.stride, b.data, b.stride, accumulate ? 1.0f : 0.0f, c, c_stride);
  if (status != dnnl_success)
    fail(Code::internal, "oneDNN's sgemm of {}x{}x{} failed with status {}", m, k, n, static_cast<int>(status));
}

void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<BFloat16> a, MatrixView<BFloat16> b,
             BFloat16* c, std::int64_t c_stride, bool) {
  by_primitive(m, n, k, a, b, c, c_stride);
}

void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<double> a, MatrixView<double> b, double* c,
             std::int64_t c_stride, bool accumulate) {
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

// Integers in unsigned arithmetic, so that overflow wraps instead of being undefined.
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

GemmParts gemm_parts(std::int64_t m, std::int64_t n, std::int64_t k) {
  // Minimum per part: about a tenth of a millisecond, many times the cost of waking a thread.
  constexpr std::int64_t kPartProducts = std::int64_t{1} << 22;
  const double cost = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto most = static_cast<std::int64_t>(std::min(cost / kPartProducts, 16.0));
  const std::int64_t columns = n >= 2048 && m >= 64 ? 4 : n >= 1024 && m >= 64 ? 2 : n > m ? 4 : 1;
  const std::int64_t column_parts = std::clamp<std::int64_t>(most, 1, columns);
  const std::int64_t row_parts = std::clamp<std::int64_t>(most / column_parts, 1, 4);
  // Parts are multiples of full register tiles, several per part.
  const auto step = [](std::int64_t length, std::int64_t parts, std::int64_t tile, std::int64_t least) {
    if (parts == 1) return length;
    return std::max(least, ((length + parts - 1) / parts + tile - 1) / tile * tile);
  };
  return {step(m, row_parts, 16, 32), step(n, column_parts, 64, 192)};
}

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_stride,
          bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate)
      for (std::int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, T{});
    return;
  }
  product(m, n, k, a, b, c, c_stride, accumulate);
}

template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*, std::int64_t,
                   bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                   std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<BFloat16>, MatrixView<BFloat16>, BFloat16*,
                   std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::int32_t>, MatrixView<std::int32_t>,
                   std::int32_t*, std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::int64_t>, MatrixView<std::int64_t>,
                   std::int64_t*, std::int64_t, bool);

}  // namespace troupe
