// Convolutions by the engines of cuDNN.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/cuda_kernels.hpp"
#include "kernels/cuda/cudnn.hpp"
#include "kernels/cuda/plan_cache.hpp"

namespace troupe {

// May an engine with these notes be used? Winograd's and Fourier's transforms lose more than the terms of a sum explain; f32 keeps its bits
// unless TF32 is wished.
bool engine_fits(const ConvKey& key, const std::vector<cudnnBackendNumericalNote_t>& notes);

// Handle and plans of one device. On the device's thread only.
class CudnnConvolutions {
 public:
  explicit CudnnConvolutions(CudaDevice& device) : device_(device) {}
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;
  ~CudnnConvolutions();

  // One of image, filter ([out, height, width, in]) and result is written, as the direction says; all in memory aligned to kBufferAlignment.
  // `bias` only if the key has one. False, and nothing launched, if no engine does it.
  bool run(KernelContext& context, const ConvKey& key, void* image, void* filter, void* result, void* bias);

 private:
  struct Plan {
    std::unique_ptr<CudnnDescriptor> execution;  // null: no engine does it
    ConvGeometry geometry;                       // as the engine is given it: padded if that is not the key's
    std::int64_t workspace = 0;
  };

  cudnnHandle_t handle();
  Plan make(const ConvKey& key);
  // Looks among cuDNN's suggestions for the first that may be used and can be built; false if there is none.
  bool find(const ConvKey& key, Plan& plan);
  void execute(KernelContext& context, const ConvKey& key, const Plan& plan, void* image, void* filter, void* result, void* bias);

  CudaDevice& device_;
  cudnnHandle_t handle_ = nullptr;
  PlanCache<ConvKey, Plan> plans_;
};

}  // namespace troupe
