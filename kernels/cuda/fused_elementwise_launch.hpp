// Between the host and the device part of FusedElementwise.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda/fused_program.hpp>

namespace troupe {

// Widths of items that there are kernels for: 2 and 1 of programs with f64, else 8, 4 and 1. The plan's items must not
// be none; elements after them (IndexPlan::rest) are left alone.
cudaError_t launch_fused(const FusedArguments& arguments, cudaStream_t stream);

}  // namespace troupe
