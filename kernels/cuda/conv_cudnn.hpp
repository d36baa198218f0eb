// Convolutions by cuDNN engines.
#pragma once

#include <troupe/kernels/cuda/conv_engines.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/plan_cache.hpp>

namespace troupe {

// Handle and plans of one device. Use only on the device's thread.
class CudnnConvolutions {
 public:
  explicit CudnnConvolutions(CudaDevice& device) : device_(device) {}
  // Runs one convolution; `key.direction` decides which of image, filter and result is written. All memory is aligned
  // to kBufferAlignment. Returns false and launches nothing if no engine supports it.
  bool run(KernelContext& context, const ConvKey& key, ConvMemory memory);

 private:
  cudnnHandle_t handle();

  CudaDevice& device_;
  std::shared_ptr<cudnnContext> handle_;  // shared with plans, which recordings keep
  cudaStream_t stream_ = nullptr;         // current stream of the handle
  PlanCache<ConvKey, ConvPlan> plans_;
};

}  // namespace troupe
