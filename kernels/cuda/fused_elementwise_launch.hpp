// FusedElementwise: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/kernels/cuda/fused_program.hpp>

namespace troupe {

// Item widths with kernels: 2 and 1 for programs with f64, else 8, 4 and 1. The plan must have at least one item;
// elements after the items (IndexPlan::rest) are not computed.
cudaError_t launch_fused(const FusedArguments& arguments, cudaStream_t stream);

}  // namespace troupe
