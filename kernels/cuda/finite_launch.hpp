// Finding infinities and NaN on a GPU: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/kernels/cuda/sweep.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Sets *finite to false if an element of the tensors is not finite. Floating types.
cudaError_t launch_find_not_finite(DType dtype, const SweepTable<1>& tensors, bool* finite, cudaStream_t stream);

// An element that is not finite is a fault: its value is 0 for NaN, or the sign of infinity.
cudaError_t launch_check_finite(DType dtype, const void* x, std::int64_t count, CudaFaultSite fault,
                                cudaStream_t stream);

// Update rule of a loss scale.
struct LossScaleRule {
  bool dynamic = true;
  double interval = 0;
  double largest = 0;
};
// Advances state = [scale, good steps since it changed, steps skipped] by one step; the step is good if the whole
// verdict is finite. Changes nothing after a fault.
cudaError_t launch_loss_scale_step(DType verdict_dtype, const void* verdict, std::int64_t count, double* state,
                                   LossScaleRule rule, const CudaFault* fault, cudaStream_t stream);

}  // namespace troupe
