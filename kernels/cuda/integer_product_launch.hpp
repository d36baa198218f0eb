// Integer matrix products, which no library provides.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// out = a b, modulo 2^bits, row-major: m x k times k x n. Transposed factors are stored as k x m and n x k.
// `batch` such products, at steps in elements. Integers of any size.
struct IntegerProduct {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t batch = 1;
  std::int64_t a_step = 0, b_step = 0;
};
cudaError_t launch_integer_product(DType dtype, const IntegerProduct& product, cudaStream_t stream);

}  // namespace troupe
