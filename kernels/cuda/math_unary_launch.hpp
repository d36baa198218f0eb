// Unary ops: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class UnaryOp : std::uint8_t {
  // Real types.
  neg,
  abs,
  sign,
  square,
  relu,
  // Floating types.
  exp,
  log,
  log1p,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  softplus,
  floor,
  erf,
  leaky_relu,
  // bool.
  logical_not,
};

// out[i] = op(x[i]); `out` may be `x`. `alpha` is used by leaky_relu only. Returns cudaErrorInvalidValue if the op does
// not support `dtype`.
cudaError_t launch_unary(UnaryOp op, DType dtype, const void* x, void* out, std::int64_t count, double alpha,
                         cudaStream_t stream);

}  // namespace troupe
