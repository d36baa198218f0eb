// Updating GPU variables in place.
#pragma once

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>

namespace troupe {

// Value of the variable at input `index`, in unshared memory: first copied on the stream if a reader shares it.
inline Tensor& writable(KernelContext& context, int index) {
  const cudaStream_t stream = cuda_device(context).stream();
  return context.variable(index).writable(context.allocator(), [stream](void* to, const void* from, std::size_t bytes) {
    if (bytes > 0)
      check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "the copy of a variable");
  });
}

}  // namespace troupe
