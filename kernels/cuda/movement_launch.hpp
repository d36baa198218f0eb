// Copies: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/copy_plan.hpp>

namespace troupe {

// `source` and `target` point to the first elements to copy. Requires at least one element.
cudaError_t launch_copy(const CopyPlan& plan, const void* source, void* target, cudaStream_t stream);

// Writes `count` copies of the element in the first 1, 2, 4 or 8 bytes of `bits`.
cudaError_t launch_fill(std::uint64_t bits, std::size_t element_bytes, void* target, std::int64_t count,
                        cudaStream_t stream);

}  // namespace troupe
