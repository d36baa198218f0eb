// Cast: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// Returns cudaErrorInvalidValue for anything but data types.
cudaError_t launch_cast(DType from, const void* x, DType to, void* out, std::int64_t count, cudaStream_t stream);

}  // namespace troupe
