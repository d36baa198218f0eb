// Compiled without fused multiply-adds: bits match devices/collective/reduce.cpp.
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/parts_sum_launch.hpp>

namespace troupe {
namespace device {
namespace {

using Reducible = Elements<float, double, __half, __nv_bfloat16, std::int32_t, std::int64_t>;

// Integer sums wrap.
template <class T>
__device__ T added(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return narrow<T>(widen(a) + widen(b));
  }
}

// Last addition of a mean: rounds after the division.
template <class T>
__device__ T added_and_divided(T a, T b, std::uint32_t divisor) {
  if constexpr (std::is_integral_v<T>)
    return added(a, b) / static_cast<T>(divisor);
  else
    return narrow<T>((widen(a) + widen(b)) / static_cast<Compute<T>>(divisor));
}

template <class T>
__device__ T greater_of(T a, T b) {
  const auto x = widen(a), y = widen(b);
  return x > y || x != x ? a : b;
}

enum class Way { sum, mean, maximum };

template <Way kWay, class T>
__device__ T combined(T sum, T next, std::uint32_t divisor) {
  if constexpr (kWay == Way::maximum)
    return greater_of(sum, next);
  else if constexpr (kWay == Way::mean)
    return divisor > 1 ? added_and_divided(sum, next, divisor) : added(sum, next);
  else
    return added(sum, next);
}

// Sums kWidth neighbours of one part at a time, and the last elements one by one.
template <class T, Way kWay, int kWidth>
__global__ void __launch_bounds__(kBlockThreads) sum_parts(PartsSum plan) {
  const T* const first = static_cast<const T*>(plan.first);
  const T* const others = static_cast<const T*>(plan.others);
  T* const out = static_cast<T*>(plan.out);
  const auto from = [&](std::uint32_t k, std::int64_t i) {
    const std::int64_t place = plan.place(k, i);
    return place < 0 ? first + i : others + place;
  };
  const std::int64_t packs = plan.elements / kWidth;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x,
                     threads = std::int64_t{gridDim.x} * kBlockThreads;
  for (std::int64_t p = thread; p < packs; p += threads) {
    T sum[kWidth], next[kWidth];
    load(from(0, p * kWidth), true, sum);
    for (std::uint32_t k = 1; k < plan.ranks; ++k) {
      load(from(k, p * kWidth), true, next);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] = combined<kWay>(sum[j], next[j], k + 1 == plan.ranks ? plan.divisor : 1);
    }
    store(out + p * kWidth, true, sum);
  }
  for (std::int64_t i = packs * kWidth + thread; i < plan.elements; i += threads) {
    T sum = *from(0, i);
    for (std::uint32_t k = 1; k < plan.ranks; ++k)
      sum = combined<kWay>(sum, *from(k, i), k + 1 == plan.ranks ? plan.divisor : 1);
    out[i] = sum;
  }
}

template <class T, Way kWay>
cudaError_t launch_sum(const PartsSum& plan, cudaStream_t stream) {
  // Packs must not cross parts and must be loaded whole: if a part or rank is not a multiple of the pack, elements are
  // summed one by one.
  const bool vectors = aligned(plan.first, plan.others, plan.out) && plan.stride % kVectorOf<T> == 0 &&
                       plan.per_part % kVectorOf<T> == 0;
  const auto go = [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    return launch(sum_parts<T, kWay, kWidth>, dim3(blocks_for(plan.elements, std::int64_t{kBlockThreads} * kWidth)),
                  dim3(kBlockThreads), stream, plan);
  };
  return vectors ? go(std::integral_constant<int, kVectorOf<T>>{}) : go(std::integral_constant<int, 1>{});
}

template <class T, Way kWay>
cudaError_t load_sums() {
  cudaFuncAttributes ignored;
  const cudaError_t status = cudaFuncGetAttributes(&ignored, sum_parts<T, kWay, kVectorOf<T>>);
  return status == cudaSuccess ? cudaFuncGetAttributes(&ignored, sum_parts<T, kWay, 1>) : status;
}

}  // namespace
}  // namespace device

cudaError_t launch_parts_sum(const PartsSum& plan, cudaStream_t stream) {
  if (plan.elements == 0) return cudaSuccess;
  return device::dispatch(device::Reducible{}, plan.dtype, [&]<class T>() {
    if (plan.maximum) return device::launch_sum<T, device::Way::maximum>(plan, stream);
    return plan.divisor > 1 ? device::launch_sum<T, device::Way::mean>(plan, stream)
                            : device::launch_sum<T, device::Way::sum>(plan, stream);
  });
}

cudaError_t load_parts_sum() {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    const cudaError_t status = device::dispatch(device::Reducible{}, dtype, []<class T>() {
      for (const cudaError_t loaded :
           {device::load_sums<T, device::Way::sum>(), device::load_sums<T, device::Way::mean>(),
            device::load_sums<T, device::Way::maximum>()})
        if (loaded != cudaSuccess) return loaded;
      return cudaSuccess;
    });
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace troupe
