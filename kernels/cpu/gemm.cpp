#include "troupe/kernels/cpu/gemm.hpp"

#include <dnnl.h>

#include <algorithm>
#include <type_traits>

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <troupe/devices/cpu/blocked_signals.hpp>
#include <troupe/kernels/cpu/gemm_table.hpp>
#include <troupe/kernels/cpu/onednn.hpp>
#include <troupe/kernels/cpu/openmp_guard.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
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
  const BlockedSignals signals;
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

// Integers: 4 rows of the result at a time, in blocks of columns whose sums stay in registers or the nearest cache.
template <class T>
void add_terms(const T* a, std::int64_t row_step, std::int64_t k_step, std::int64_t rows, const T* b,
               std::int64_t b_stride, std::int64_t width, std::int64_t k, T* c, std::int64_t c_stride) {
  using Wide = std::common_type_t<T, std::uint32_t>;  // or small integers become signed
  constexpr std::int64_t kRows = 4, kBlock = 128 / sizeof(T);
  for (std::int64_t left = 0; left < width; left += kBlock) {
    const std::int64_t columns = std::min(kBlock, width - left);
    T sums[kRows][kBlock] = {};
    for (std::int64_t p = 0; p < k; ++p) {
      const T* const row = b + p * b_stride + left;
      for (std::int64_t i = 0; i < rows; ++i) {
        const Wide factor = a[i * row_step + p * k_step];
        if (columns == kBlock)
          for (std::int64_t j = 0; j < kBlock; ++j) sums[i][j] = static_cast<T>(sums[i][j] + factor * row[j]);
        else
          for (std::int64_t j = 0; j < columns; ++j) sums[i][j] = static_cast<T>(sums[i][j] + factor * row[j]);
      }
    }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        c[i * c_stride + left + j] = static_cast<T>(c[i * c_stride + left + j] + sums[i][j]);
  }
}

template <class T>
void product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
             std::int64_t c_stride, bool accumulate) {
  if (!accumulate)
    for (std::int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, T{0});
  constexpr std::int64_t kRows = 4, kTerms = 256, kColumns = 512;
  const ScratchArray<T> copy(b.transposed ? std::min(k, kTerms) * std::min(n, kColumns) : 0);
  for (std::int64_t first = 0; first < k; first += kTerms)
    for (std::int64_t left = 0; left < n; left += kColumns) {
      const std::int64_t terms = std::min(kTerms, k - first), width = std::min(kColumns, n - left);
      const T* right = b.transposed ? copy.data() : b.data + first * b.stride + left;
      if (b.transposed)
        for (std::int64_t p = 0; p < terms; ++p)
          for (std::int64_t j = 0; j < width; ++j) copy[p * width + j] = b.data[(left + j) * b.stride + first + p];
      const std::int64_t row_step = a.transposed ? 1 : a.stride, k_step = a.transposed ? a.stride : 1;
      for (std::int64_t top = 0; top < m; top += kRows)
        add_terms(a.data + top * row_step + first * k_step, row_step, k_step, std::min(kRows, m - top), right,
                  b.transposed ? width : b.stride, width, terms, c + top * c_stride + left, c_stride);
    }
}

}  // namespace

// Multiply-adds at least of a part: about a tenth of a millisecond, many times the cost of waking a thread.
constexpr std::int64_t kPartProducts = std::int64_t{1} << 22;

GemmParts gemm_parts(std::int64_t m, std::int64_t n, std::int64_t k) {
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

std::int64_t small_products(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double cost =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::max<std::int64_t>(k, 16));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kPartProducts / std::max(cost, 1.0)), 1, 1 << 16);
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
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint8_t>, MatrixView<std::uint8_t>,
                   std::uint8_t*, std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint16_t>, MatrixView<std::uint16_t>,
                   std::uint16_t*, std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint32_t>, MatrixView<std::uint32_t>,
                   std::uint32_t*, std::int64_t, bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint64_t>, MatrixView<std::uint64_t>,
                   std::uint64_t*, std::int64_t, bool);

}  // namespace troupe
