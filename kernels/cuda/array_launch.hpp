// Range: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// out[i] = start + i * delta: modulo 2^64 for integers, computed in f64 for f32 and f64.
struct RangeArguments {
  DType dtype = DType::invalid;
  void* out = nullptr;
  std::int64_t count = 0;
  std::uint64_t start = 0;
  std::uint64_t delta = 0;
  double real_start = 0;
  double real_delta = 0;
};
// Returns cudaErrorInvalidValue for f16, bf16 and non-numeric dtypes.
cudaError_t launch_range(const RangeArguments& arguments, cudaStream_t stream);

}  // namespace troupe
