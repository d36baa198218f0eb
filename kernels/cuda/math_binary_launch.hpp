// Between the host and the device part of arithmetic of two operands.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/elementwise_launch.hpp"
#include "messages/dtype.hpp"

namespace troupe {

enum class BinaryOp : std::uint8_t {
  // Of any real type.
  add,
  sub,
  mul,
  maximum,
  minimum,
  squared_difference,
  // Of floating types.
  div,
  pow,
};

// cudaErrorInvalidValue for a dtype that the op does not take.
cudaError_t launch_binary(BinaryOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

}  // namespace troupe
