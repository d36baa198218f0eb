// Binary arithmetic: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Pow is not of integers below 32 bits.
#define TROUPE_ENUMERATOR(NAME) NAME,
enum class BinaryOp : std::uint8_t { TROUPE_ARITHMETIC_OPS(TROUPE_ENUMERATOR) Div, Pow };
#undef TROUPE_ENUMERATOR

// Returns cudaErrorInvalidValue if the op does not support `dtype`. Undefined integer quotients and powers give any
// value.
cudaError_t launch_binary(BinaryOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

// Checks `count` integers, the second operands of Div or Pow: a divisor of 0 or a negative exponent is a fault.
cudaError_t launch_check_operand(BinaryOp op, DType dtype, const void* values, std::int64_t count, CudaFaultSite fault,
                                 cudaStream_t stream);

}  // namespace troupe
