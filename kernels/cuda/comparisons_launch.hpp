// Binary ops with a bool result: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/kernels/cuda/elementwise_launch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

#define TROUPE_ENUMERATOR(NAME) NAME,
enum class ComparisonOp : std::uint8_t { TROUPE_COMPARISON_OPS(TROUPE_ENUMERATOR) LogicalAnd, LogicalOr };
#undef TROUPE_ENUMERATOR

// Returns cudaErrorInvalidValue if the op does not support `dtype`, the dtype of the operands.
cudaError_t launch_comparison(ComparisonOp op, DType dtype, const BinaryArguments& arguments, cudaStream_t stream);

}  // namespace troupe
