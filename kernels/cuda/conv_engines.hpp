// Choice of a cuDNN engine for a convolution: depends only on the key, cuDNN, and the GPU or its properties. Nothing is
// timed.
#pragma once

#include <memory>
#include <vector>

#include <troupe/kernels/cuda/conv_plan.hpp>
#include <troupe/kernels/cuda/cudnn.hpp>
#include <troupe/messages/function_ref.hpp>

namespace troupe {

// True if an engine with these numerical notes may be used. Winograd and FFT transforms lose more precision than the
// length of the sum explains; f32 keeps full precision unless TF32 is enabled; ReLU must keep NaN.
bool engine_fits(const ConvKey& key, const std::vector<cudnnBackendNumericalNote_t>& notes);

// Target of a plan: a GPU, or only its properties (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) for tests without a GPU.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

struct ConvPlan {
  std::shared_ptr<CudnnDescriptor> execution;  // null if no engine supports it
  ConvGeometry geometry;                       // geometry passed to the engine: padded if it differs from the key's
  std::int64_t workspace = 0;                  // bytes
};
ConvPlan plan_convolution(const ConvKey& key, const CudnnTarget& target);

// Calls take(plan) for each plan that cuDNN suggests, that may be used and that can be built, best estimate first,
// until it returns true. Throws cuDNN's error if the graph itself is invalid.
void for_each_plan(const ConvKey& key, const CudnnTarget& target, FunctionRef<bool(ConvPlan)> take);

struct ConvMemory {
  void* image = nullptr;
  void* filter = nullptr;  // [out, height, width, in]
  void* result = nullptr;
  void* bias = nullptr;  // only if the key has one
};
// Launches on the handle's stream. `workspace` has the plan's size and is aligned to 256 bytes.
void execute_convolution(const ConvKey& key, const ConvPlan& plan, cudnnHandle_t handle, const ConvMemory& memory,
                         void* workspace);

}  // namespace troupe
