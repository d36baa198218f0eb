// Which engine of cuDNN does a convolution: a function of the key, cuDNN, and the GPU or its properties alone. Nothing
// is timed.
#pragma once

#include <memory>
#include <vector>

#include <troupe/kernels/cuda/conv_plan.hpp>
#include <troupe/kernels/cuda/cudnn.hpp>
#include <troupe/messages/function_ref.hpp>

namespace troupe {

// May an engine with these notes be used? Winograd's and Fourier's transforms lose more than the terms of a sum
// explain; f32 keeps its bits unless TF32 is wished; ReLU must leave NaN as it is.
bool engine_fits(const ConvKey& key, const std::vector<cudnnBackendNumericalNote_t>& notes);

// What plans are made for: a GPU, or only its properties (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), for tests where there
// is none.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

struct ConvPlan {
  std::shared_ptr<CudnnDescriptor> execution;  // null: no engine does it
  ConvGeometry geometry;                       // as the engine is given it: padded if that is not the key's
  std::int64_t workspace = 0;                  // bytes
};
ConvPlan plan_convolution(const ConvKey& key, const CudnnTarget& target);

// Calls take(plan) for all that cuDNN suggests, may be used, and can be built, the best first by its estimate, until it
// returns true. Throws what cuDNN says against the graph itself.
void for_each_plan(const ConvKey& key, const CudnnTarget& target, FunctionRef<bool(ConvPlan)> take);

struct ConvMemory {
  void* image = nullptr;
  void* filter = nullptr;  // [out, height, width, in]
  void* result = nullptr;
  void* bias = nullptr;  // only if the key has one
};
// Launches on the handle's stream. `workspace`: of the plan's size, aligned to 256 bytes.
void execute_convolution(const ConvKey& key, const ConvPlan& plan, cudnnHandle_t handle, const ConvMemory& memory,
                         void* workspace);

}  // namespace troupe
