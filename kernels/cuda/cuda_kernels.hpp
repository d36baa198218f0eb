// The kernels of GPUs, by family; each family says what its CPU twin in kernels/cpu says.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <troupe/devices/cuda/cuda_device.hpp>
#include <troupe/devices/cuda/cuda_error.hpp>

namespace troupe {

// GPU kernels run on devices of this library only.
inline CudaDevice& cuda_device(KernelContext& context) { return static_cast<CudaDevice&>(context.device()); }

// Fills the tensor with zeros, in the order of the device's stream. Throws as check_cuda, naming `what`.
inline void clear(KernelContext& context, Tensor& t, const char* what) {
  if (t.num_bytes() > 0)
    check_cuda(cudaMemsetAsync(t.mutable_raw(), 0, t.num_bytes(), cuda_device(context).stream()), what);
}

// Whether a step that was recorded may replay the kernel: it launches the same work for the same shapes, or finds out
// that it cannot (CudaDevice::read). Not if it looks at values on the host in every step, or gives a variable other
// memory.
enum class Replay : std::uint8_t { allowed, never };

// Registers one kernel for these dtypes; none: for any.
void add_cuda(KernelRegistry& registry, const std::string& op, std::initializer_list<DType> dtypes, KernelFactory make,
              Replay replay = Replay::allowed);
// The same for kernels that need nothing of their node.
void add_cuda(KernelRegistry& registry, const std::string& op, std::initializer_list<DType> dtypes,
              void (*run)(KernelContext&), Replay replay = Replay::allowed);

void register_cuda_array_kernels(KernelRegistry& registry);
void register_cuda_bias_kernels(KernelRegistry& registry);
void register_cuda_cast_kernels(KernelRegistry& registry);
void register_cuda_comparison_kernels(KernelRegistry& registry);
void register_cuda_conv_kernels(KernelRegistry& registry);
void register_cuda_finite_kernels(KernelRegistry& registry);
void register_cuda_fused_kernels(KernelRegistry& registry);
void register_cuda_gather_kernels(KernelRegistry& registry);
void register_cuda_linear_kernels(KernelRegistry& registry);
void register_cuda_math_binary_kernels(KernelRegistry& registry);
void register_cuda_math_grad_kernels(KernelRegistry& registry);
void register_cuda_math_unary_kernels(KernelRegistry& registry);
void register_cuda_norm_kernels(KernelRegistry& registry);
void register_cuda_pool_kernels(KernelRegistry& registry);
void register_cuda_random_kernels(KernelRegistry& registry);
void register_cuda_reduce_kernels(KernelRegistry& registry);
void register_cuda_select_kernels(KernelRegistry& registry);
void register_cuda_softmax_kernels(KernelRegistry& registry);
void register_cuda_state_kernels(KernelRegistry& registry);
void register_cuda_update_kernels(KernelRegistry& registry);

void register_cuda_kernels(KernelRegistry& registry);

}  // namespace troupe
