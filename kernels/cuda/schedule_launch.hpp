// Learning rates on a GPU: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/kernels/cuda/schedule.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// f32, f64, f16 or bf16. A negative t is a fault and gives NaN.
cudaError_t launch_learning_rate(DType dtype, const CudaSchedule& schedule, const std::int64_t* t, CudaFaultSite fault,
                                 void* rate, cudaStream_t stream);

}  // namespace troupe
