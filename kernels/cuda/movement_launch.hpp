// Between the host and the device part of copies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/kernels/cuda/copy_plan.hpp>

namespace troupe {

// `source` and `target`: the first elements that are copied. Not for a copy of nothing.
cudaError_t launch_copy(const CopyPlan& plan, const void* source, void* target, cudaStream_t stream);

// `count` times the element of 1, 2, 4 or 8 bytes that `bits` begins with.
cudaError_t launch_fill(std::uint64_t bits, std::size_t element_bytes, void* target, std::int64_t count,
                        cudaStream_t stream);

}  // namespace troupe
