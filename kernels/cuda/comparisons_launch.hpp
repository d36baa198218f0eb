// Between the host and the device part of the ops of two operands whose result is bool.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class ComparisonOp : std::uint8_t {
  // Of any data type.
  equal,
  not_equal,
  // Of any real type.
  less,
  less_equal,
  greater,
  greater_equal,
  // Of bool.
  logical_and,
  logical_or,
};

// cudaErrorInvalidValue for a dtype (of the operands) that the op does not take.
cudaError_t launch_comparison(ComparisonOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

}  // namespace troupe
