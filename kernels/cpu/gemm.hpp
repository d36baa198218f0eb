// Matrix products on raw row-major memory, on the calling thread.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// A row-major matrix as stored: element (i, j) is data[i * stride + j]; if `transposed`, its transpose is used.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

// c[i * c_stride + j] (i < m, j < n) = sum over p < k of a(i, p) * b(p, j), added to c if `accumulate`. c must overlap
// neither a nor b. The bits depend only on the sizes and flags, provided that data is aligned to 64 bytes or at an
// offset from such an address that the sizes determine. Integers wrap. float: oneDNN; double: Eigen; BFloat16: oneDNN,
// only where onednn::has_bf16() and without `accumulate`; unsigned integers, also for signed ones: loops.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_stride,
          bool accumulate = false);

extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*,
                          std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                          std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<BFloat16>, MatrixView<BFloat16>,
                          BFloat16*, std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint8_t>, MatrixView<std::uint8_t>,
                          std::uint8_t*, std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint16_t>,
                          MatrixView<std::uint16_t>, std::uint16_t*, std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint32_t>,
                          MatrixView<std::uint32_t>, std::uint32_t*, std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<std::uint64_t>,
                          MatrixView<std::uint64_t>, std::uint64_t*, std::int64_t, bool);

}  // namespace troupe
