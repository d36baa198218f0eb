// Between the host and the device part of Range.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// out[i] = start + i * delta: of integers modulo 2^64, of f32 and f64 computed in f64.
struct RangeArguments {
  DType dtype = DType::invalid;
  void* out = nullptr;
  std::int64_t count = 0;
  std::uint64_t start = 0;
  std::uint64_t delta = 0;
  double real_start = 0;
  double real_delta = 0;
};
// cudaErrorInvalidValue for f16, bf16 and what is no number.
cudaError_t launch_range(const RangeArguments& arguments, cudaStream_t stream);

}  // namespace troupe
