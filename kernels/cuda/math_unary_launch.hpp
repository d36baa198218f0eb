// Between the host and the device part of the ops of one operand.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class UnaryOp : std::uint8_t {
  // Of any real type.
  neg,
  abs,
  sign,
  square,
  relu,
  // Of floating types.
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
  // Of bool.
  logical_not,
};

// out[i] = op(x[i]); `out` may be `x`. `alpha`: of leaky_relu. cudaErrorInvalidValue for a dtype that the op does not
// take.
cudaError_t launch_unary(UnaryOp op, DType dtype, const void* x, void* out, std::int64_t count, double alpha,
                         cudaStream_t stream);

}  // namespace troupe
