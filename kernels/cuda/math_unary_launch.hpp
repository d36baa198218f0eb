// Unary ops: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

#define TROUPE_ENUMERATOR(NAME) NAME,
enum class UnaryOp : std::uint8_t { TROUPE_UNARY_OPS(TROUPE_ENUMERATOR) LeakyRelu, LogicalNot };
#undef TROUPE_ENUMERATOR

// out[i] = op(x[i]); `out` may be `x`. `alpha` is used by LeakyRelu only. Returns cudaErrorInvalidValue if the op does
// not support `dtype`.
cudaError_t launch_unary(UnaryOp op, DType dtype, const void* x, void* out, std::int64_t count, double alpha,
                         cudaStream_t stream);

}  // namespace troupe
