// Convolutions by the engines of cuDNN.
#pragma once

#include <troupe/kernels/cuda/conv_engines.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/plan_cache.hpp>

namespace troupe {

// Handle and plans of one device. On the device's thread only.
class CudnnConvolutions {
 public:
  explicit CudnnConvolutions(CudaDevice& device) : device_(device) {}
  // One of image, filter and result is written, as the direction says; all are in memory aligned to kBufferAlignment.
  // False, and nothing launched, if no engine does it.
  bool run(KernelContext& context, const ConvKey& key, ConvMemory memory);

 private:
  cudnnHandle_t handle();

  CudaDevice& device_;
  std::shared_ptr<cudnnContext> handle_;  // of plans too, which recordings keep
  cudaStream_t stream_ = nullptr;         // of the handle
  PlanCache<ConvKey, ConvPlan> plans_;
};

}  // namespace troupe
