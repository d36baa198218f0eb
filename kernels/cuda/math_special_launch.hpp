// Rarer elementwise ops: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/kernels/common/special_ops.hpp>
#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Of floating types and integers; of floating types; of integers.
enum class SpecialOp : std::uint8_t {
  FloorDiv,
  FloorMod,
  TruncateMod,
  Atan2,
  Xlogy,
  BitwiseAnd,
  BitwiseOr,
  BitwiseXor,
  LeftShift,
  RightShift
};

// Returns cudaErrorInvalidValue if the op does not support `dtype`. Quotients and remainders of a divisor of 0 are any
// value.
cudaError_t launch_special(SpecialOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

// out may be x.
cudaError_t launch_polygamma(const PolygammaOp& op, DType dtype, const void* x, void* out, std::int64_t count,
                             cudaStream_t stream);
// Of all bits of `bytes` bytes.
cudaError_t launch_bitwise_not(const void* x, void* out, std::int64_t bytes, cudaStream_t stream);

}  // namespace troupe
