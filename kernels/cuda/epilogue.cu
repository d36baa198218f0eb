// Device part of epilogue_launch.hpp.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/cuda_math.cuh>
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/epilogue_launch.hpp>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace {

using device::kBlockThreads;

using device::Compute;

using device::CudaMath;

template <FusedActivation kActivation, class C>
__device__ inline C activate(C x) {
  if constexpr (kActivation == FusedActivation::relu) return ReluOp{}(x);
  if constexpr (kActivation == FusedActivation::tanh) return TanhOp<CudaMath>{}(x);
  if constexpr (kActivation == FusedActivation::sigmoid) return SigmoidOp<CudaMath>{}(x);
  return x;
}

// One thread handles kCount neighbours of a row; `width` is a multiple of kCount.
template <class T, FusedActivation kActivation, int kCount, class Index>
__global__ void __launch_bounds__(kBlockThreads)
    bias_activation(T* data, const T* bias, Index groups, Index groups_of_row) {
  const Index step = static_cast<Index>(gridDim.x) * kBlockThreads;
  for (Index group = static_cast<Index>(blockIdx.x) * kBlockThreads + threadIdx.x; group < groups; group += step) {
    T values[kCount];
    device::load(data + static_cast<std::int64_t>(group) * kCount, true, values);
    if (bias) {
      T addends[kCount];
      device::load(bias + static_cast<std::int64_t>(group % groups_of_row) * kCount, true, addends);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        values[i] = device::narrow<T>(device::widen(values[i]) + device::widen(addends[i]));
    }
    if constexpr (kActivation != FusedActivation::none) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] = device::narrow<T>(activate<kActivation>(device::widen(values[i])));
    }
    device::store(data + static_cast<std::int64_t>(group) * kCount, true, values);
  }
}

template <class T, FusedActivation kActivation, int kCount>
cudaError_t launch_groups(T* data, const T* bias, std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  const std::int64_t groups_of_row = width / kCount, groups = rows * groups_of_row;
  const dim3 grid(device::blocks_for(groups, kBlockThreads)), block(kBlockThreads);
  // The loop counter exceeds `groups` by less than one grid step.
  if (groups < (std::int64_t{1} << 31))
    return device::launch(bias_activation<T, kActivation, kCount, std::uint32_t>, grid, block, stream, data, bias,
                          static_cast<std::uint32_t>(groups), static_cast<std::uint32_t>(groups_of_row));
  return device::launch(bias_activation<T, kActivation, kCount, std::int64_t>, grid, block, stream, data, bias, groups,
                        groups_of_row);
}

template <class T, FusedActivation kActivation>
cudaError_t launch_typed(void* data, const void* bias, std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  constexpr int kVector = device::kVectorOf<T>;
  T* const to = static_cast<T*>(data);
  const T* const addend = static_cast<const T*>(bias);
  if (width % kVector == 0 && device::aligned(to, addend))
    return launch_groups<T, kActivation, kVector>(to, addend, rows, width, stream);
  return launch_groups<T, kActivation, 1>(to, addend, rows, width, stream);
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) narrow_all(const float* from, T* to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < count; i += step)
    to[i] = device::narrow<T>(from[i]);
}

}  // namespace

cudaError_t launch_bias_activation(DType dtype, FusedActivation activation, void* data, const void* bias,
                                   std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  if (rows == 0 || width == 0 || (!bias && activation == FusedActivation::none)) return cudaSuccess;
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    switch (activation) {
      case FusedActivation::none:
        return launch_typed<T, FusedActivation::none>(data, bias, rows, width, stream);
      case FusedActivation::relu:
        return launch_typed<T, FusedActivation::relu>(data, bias, rows, width, stream);
      case FusedActivation::sigmoid:
        return launch_typed<T, FusedActivation::sigmoid>(data, bias, rows, width, stream);
      case FusedActivation::tanh:
        return launch_typed<T, FusedActivation::tanh>(data, bias, rows, width, stream);
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t launch_narrow(DType dtype, const float* from, void* to, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return device::dispatch(device::Elements<__half, __nv_bfloat16>{}, dtype, [&]<class T>() {
    return device::launch(narrow_all<T>, dim3(device::blocks_for(count, kBlockThreads)), dim3(kBlockThreads), stream,
                          from, static_cast<T*>(to), count);
  });
}

}  // namespace troupe
