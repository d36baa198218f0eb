// Device part of state_launch.hpp.
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/state_launch.hpp>

namespace troupe {
namespace device {
namespace {

template <class T>
__device__ T sum(T a, T b, bool subtract) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<unsigned long long>(a), y = static_cast<unsigned long long>(b);
    return static_cast<T>(subtract ? x - y : x + y);
  } else {
    return narrow<T>(subtract ? widen(a) - widen(b) : widen(a) + widen(b));
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    assign_sum(bool subtract, T* at, const T* change, std::int64_t count, const CudaFault* fault, bool vectors) {
  if (failed(fault)) return;
  constexpr int kVector = kVectorOf<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads * kVector;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) * kVector; i < count;
       i += step) {
    if (i + kVector <= count) {
      T a[kVector], b[kVector];
      load<kVector>(at + i, vectors, a);
      load<kVector>(change + i, vectors, b);
#pragma unroll
      for (int v = 0; v < kVector; ++v) a[v] = sum(a[v], b[v], subtract);
      store<kVector>(at + i, vectors, a);
    } else {
      for (std::int64_t j = i; j < count; ++j) at[j] = sum(at[j], change[j], subtract);
    }
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_assign_sum(DType dtype, bool subtract, void* at, const void* change, std::int64_t count,
                              const CudaFault* fault, cudaStream_t stream) {
  return device::dispatch(device::RealElements{}, dtype, [&]<class T>() {
    auto* to = static_cast<T*>(at);
    const auto* from = static_cast<const T*>(change);
    return device::launch(device::assign_sum<T>,
                          device::blocks_for(count, device::kBlockThreads * device::kVectorOf<T>),
                          device::kBlockThreads, stream, subtract, to, from, count, fault,
                          device::aligned(static_cast<const T*>(to), from));
  });
}

}  // namespace troupe
