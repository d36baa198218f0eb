// GPU kernels, by family; the contracts are those of their CPU twins in kernels/cpu.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <troupe/devices/cuda/cuda_device.hpp>
#include <troupe/devices/cuda/cuda_error.hpp>

namespace troupe {

// Valid because GPU kernels run only on devices of this library.
inline CudaDevice& cuda_device(KernelContext& context) { return static_cast<CudaDevice&>(context.device()); }

// Fills the tensor with zeros, in stream order. Throws as check_cuda, naming `what`.
inline void clear(KernelContext& context, Tensor& t, const char* what) {
  if (t.num_bytes() > 0)
    check_cuda(cudaMemsetAsync(t.mutable_raw(), 0, t.num_bytes(), cuda_device(context).stream()), what);
}

// Whether a recorded step may replay the kernel: allowed if it launches the same work for the same shapes or detects
// that it cannot (CudaDevice::read); never if it inspects values on the host in every step or reallocates a variable.
enum class Replay : std::uint8_t { allowed, never };

// Registers one kernel for the given dtypes; an empty list means any.
void add_cuda(KernelRegistry& registry, const std::string& op, std::initializer_list<DType> dtypes, KernelFactory make,
              Replay replay = Replay::allowed);
// Same, for kernels that do not depend on their node.
void add_cuda(KernelRegistry& registry, const std::string& op, std::initializer_list<DType> dtypes,
              void (*run)(KernelContext&), Replay replay = Replay::allowed);

void register_cuda_array_kernels(KernelRegistry& registry);
void register_cuda_attention_kernels(KernelRegistry& registry);
void register_cuda_bias_kernels(KernelRegistry& registry);
void register_cuda_cast_kernels(KernelRegistry& registry);
void register_cuda_comparison_kernels(KernelRegistry& registry);
void register_cuda_conv_kernels(KernelRegistry& registry);
void register_cuda_cumulative_kernels(KernelRegistry& registry);
void register_cuda_finite_kernels(KernelRegistry& registry);
void register_cuda_fused_kernels(KernelRegistry& registry);
void register_cuda_gather_kernels(KernelRegistry& registry);
void register_cuda_indexed_kernels(KernelRegistry& registry);
void register_cuda_layout_kernels(KernelRegistry& registry);
void register_cuda_linear_kernels(KernelRegistry& registry);
void register_cuda_math_binary_kernels(KernelRegistry& registry);
void register_cuda_math_grad_kernels(KernelRegistry& registry);
void register_cuda_math_special_kernels(KernelRegistry& registry);
void register_cuda_math_unary_kernels(KernelRegistry& registry);
void register_cuda_norm_kernels(KernelRegistry& registry);
void register_cuda_pool_kernels(KernelRegistry& registry);
void register_cuda_random_kernels(KernelRegistry& registry);
void register_cuda_reduce_kernels(KernelRegistry& registry);
void register_cuda_select_kernels(KernelRegistry& registry);
void register_cuda_slice_kernels(KernelRegistry& registry);
void register_cuda_softmax_kernels(KernelRegistry& registry);
void register_cuda_state_kernels(KernelRegistry& registry);
void register_cuda_update_kernels(KernelRegistry& registry);

void register_cuda_kernels(KernelRegistry& registry);

}  // namespace troupe
