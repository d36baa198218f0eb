// Between the host and the device part of arithmetic of two operands.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class BinaryOp : std::uint8_t {
  // Of any real type.
  add,
  sub,
  mul,
  maximum,
  minimum,
  squared_difference,
  div,
  pow,  // not of integers below 32 bits
};

// cudaErrorInvalidValue for a dtype that the op does not take. What integers have no quotient or power for is anything.
cudaError_t launch_binary(BinaryOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

// Looks at `count` integers, the second operands of Div or Pow: a divisor of 0, or an exponent below 0, is a fault.
cudaError_t launch_check_operand(BinaryOp op, DType dtype, const void* values, std::int64_t count, CudaFaultSite fault,
                                 cudaStream_t stream);

}  // namespace troupe
