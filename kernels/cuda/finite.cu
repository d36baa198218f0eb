// Device part of finite_launch.hpp.
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/finite_launch.hpp>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace device {
namespace {

template <class T>
__device__ bool is_finite(T x) {
  const Compute<T> difference = widen(x) - widen(x);  // NaN unless x is finite
  return difference == difference;
}

template <class T>
__global__ void __launch_bounds__(kSweepThreads)
    find_not_finite(const __grid_constant__ SweepTable<1> tensors, bool* finite) {
  constexpr int kVector = kVectorOf<T>;
  const SweepEntry<1>& entry = tensors.entries[tensors.entry_of(blockIdx.x)];
  const auto* x = static_cast<const T*>(entry.pointers[0]);
  const bool vectors = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  const std::int64_t begin = (blockIdx.x - entry.first_block) * kSweepElements,
                     end = min(begin + kSweepElements, entry.count);
  bool good = true;
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x * kVector; i < end; i += kSweepThreads * kVector) {
    if (i + kVector <= end) {
      T values[kVector];
      load<kVector>(x + i, vectors, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) good &= is_finite(values[v]);
    } else {
      for (std::int64_t j = i; j < end; ++j) good &= is_finite(x[j]);
    }
  }
  if (!good) *finite = false;  // a benign race: all writers store the same value
}

// A thread reports its first only.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) check_finite(const T* x, std::int64_t count, CudaFaultSite fault) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < count; i += step) {
    if (is_finite(x[i])) continue;
    const Compute<T> value = widen(x[i]);
    report(fault, value > 0 ? 1 : value < 0 ? -1 : 0, i, 0);
    return;
  }
}

template <class T>
__global__ void __launch_bounds__(kSweepThreads)
    step_loss_scale(const T* verdict, std::int64_t count, double* state, LossScaleRule rule, const CudaFault* fault) {
  if (failed(fault)) return;
  bool good = true;
  for (std::int64_t i = threadIdx.x; i < count; i += kSweepThreads) good &= is_finite(verdict[i]);
  good = __syncthreads_and(good) != 0;
  if (threadIdx.x != 0) return;
  double scale = state[0], good_steps = state[1];
  if (!good) state[2] += 1;
  if (!rule.dynamic) return;
  if (!good) {
    scale = fmax(scale / 2, 1.0);
    good_steps = 0;
  } else {
    good_steps += 1;
    if (good_steps >= rule.interval) {
      scale = fmin(scale * 2, rule.largest);
      good_steps = 0;
    }
  }
  state[0] = scale;
  state[1] = good_steps;
}

}  // namespace
}  // namespace device

cudaError_t launch_find_not_finite(DType dtype, const SweepTable<1>& tensors, bool* finite, cudaStream_t stream) {
  if (tensors.blocks == 0) return cudaSuccess;
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(device::find_not_finite<T>, static_cast<unsigned>(tensors.blocks), kSweepThreads, stream,
                          tensors, finite);
  });
}

cudaError_t launch_check_finite(DType dtype, const void* x, std::int64_t count, CudaFaultSite fault,
                                cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(device::check_finite<T>, device::blocks_for(count, device::kBlockThreads),
                          device::kBlockThreads, stream, static_cast<const T*>(x), count, fault);
  });
}

cudaError_t launch_loss_scale_step(DType verdict_dtype, const void* verdict, std::int64_t count, double* state,
                                   LossScaleRule rule, const CudaFault* fault, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, verdict_dtype, [&]<class T>() {
    return device::launch(device::step_loss_scale<T>, 1, kSweepThreads, stream, static_cast<const T*>(verdict), count,
                          state, rule, fault);
  });
}

}  // namespace troupe
