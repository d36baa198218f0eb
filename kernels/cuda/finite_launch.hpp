// Looking for infinities and NaN on a GPU, between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/kernels/cuda/sweep.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Sets *finite to false if an element of the tensors is not finite. Floating types.
cudaError_t launch_find_not_finite(DType dtype, const SweepTable<1>& tensors, bool* finite, cudaStream_t stream);

// How the scale of a loss changes.
struct LossScaleRule {
  bool dynamic = true;
  double interval = 0;
  double largest = 0;
};
// One more step in state = [scale, good steps since it changed, steps skipped]; the step is good if all of the verdict
// is finite. Nothing changes after a fault.
cudaError_t launch_loss_scale_step(DType verdict_dtype, const void* verdict, std::int64_t count, double* state,
                                   LossScaleRule rule, const CudaFault* fault, cudaStream_t stream);

}  // namespace troupe
