// Between the host and the device part of Cast.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// cudaErrorInvalidValue for dtypes that are no data types.
cudaError_t launch_cast(DType from, const void* x, DType to, void* out, std::int64_t count, cudaStream_t stream);

}  // namespace troupe
