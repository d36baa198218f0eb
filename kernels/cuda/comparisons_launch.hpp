// Binary ops with a bool result: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class ComparisonOp : std::uint8_t {
  // Any data type.
  equal,
  not_equal,
  // Real types.
  less,
  less_equal,
  greater,
  greater_equal,
  // bool.
  logical_and,
  logical_or,
};

// Returns cudaErrorInvalidValue if the op does not support `dtype`, the dtype of the operands.
cudaError_t launch_comparison(ComparisonOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

}  // namespace troupe
