#include "troupe/kernels/cuda/conv_cudnn.hpp"

#include <utility>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/conv_launch.hpp>
#include <troupe/kernels/cuda/cublas_lt.hpp>

namespace troupe {
namespace {

ImageWindow padding_window(const ConvGeometry& bare, const ConvGeometry& padded) {
  return {.images = bare.batch,
          .channels = bare.in_channels,
          .from_height = bare.rows.input,
          .from_width = bare.columns.input,
          .to_height = padded.rows.input,
          .to_width = padded.columns.input,
          .top = -bare.rows.before,
          .left = -bare.columns.before};
}

ImageWindow cropping_window(const ConvGeometry& bare, const ConvGeometry& padded) {
  return {.images = bare.batch,
          .channels = bare.in_channels,
          .from_height = padded.rows.input,
          .from_width = padded.columns.input,
          .to_height = bare.rows.input,
          .to_width = bare.columns.input,
          .top = bare.rows.before,
          .left = bare.columns.before};
}

}  // namespace

cudnnHandle_t CudnnConvolutions::handle() {
  if (!handle_) {
    cudnnHandle_t made = nullptr;
    check_cudnn(cudnnCreate(&made), "cudnnCreate");
    handle_.reset(made, [](cudnnHandle_t handle) { static_cast<void>(cudnnDestroy(handle)); });
  }
  if (const cudaStream_t stream = device_.stream(); stream != stream_) {  // recordings use their own stream
    check_cudnn(cudnnSetStream(handle_.get(), stream), "cudnnSetStream");
    stream_ = stream;
  }
  return handle_.get();
}

bool CudnnConvolutions::run(KernelContext& context, const ConvKey& key, ConvMemory memory) {
  const ConvPlan& plan = plans_.get(key, [&] {
    device_.not_recorded("looking for the plan of a convolution");
    ConvPlan found = plan_convolution(key, {.handle = handle()});
    if (found.execution)
      found.execution = {found.execution.get(),
                         [execution = found.execution, handle = handle_](CudnnDescriptor*) mutable {
                           execution.reset();
                           handle.reset();
                         }};
    return found;
  });
  if (!plan.execution) return false;
  device_.keep(plan.execution);  // the cache drops plans when full, and cuDNN unloads kernels with their plan
  const Workspace workspace(context, static_cast<std::size_t>(plan.workspace));
  if (plan.geometry == key.geometry) {
    execute_convolution(key, plan, handle(), memory, workspace.data());
    return true;
  }
  const std::size_t element = size_of(key.dtype);
  const Workspace copy(context, static_cast<std::size_t>(plan.geometry.batch * plan.geometry.image_size()) * element);
  void* const image = std::exchange(memory.image, copy.data());
  const bool writes_image = key.direction == ConvDirection::backward_input;
  if (!writes_image)
    check_cuda(
        launch_image_window(element, padding_window(key.geometry, plan.geometry), image, copy.data(), device_.stream()),
        "padding for a convolution");
  execute_convolution(key, plan, handle(), memory, workspace.data());
  if (writes_image)
    check_cuda(launch_image_window(element, cropping_window(key.geometry, plan.geometry), copy.data(), image,
                                   device_.stream()),
               "padding of a convolution");
  return true;
}

}  // namespace troupe
