// Shared parts of the pooling kernels: one thread per group of neighbouring channels of a pixel.
#pragma once

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/pool_launch.hpp>

namespace troupe::device {

inline constexpr int kPoolThreads = 256;

// Sizes in the type used for computing positions.
template <class Index>
struct Axis {
  Index input, kernel, stride, output, before;

  __device__ Index begin(Index window) const {
    const Index at = window * stride - before;
    return at < 0 ? 0 : at;
  }
  __device__ Index end(Index window) const {
    const Index at = window * stride - before + kernel;
    return at < input ? at : input;
  }
  // Windows that cover position `at`: from first_window() to end_window().
  __device__ Index first_window(Index at) const {
    return at + before < kernel ? 0 : (at + before - kernel) / stride + 1;
  }
  __device__ Index end_window(Index at) const {
    const Index last = (at + before) / stride + 1;
    return last < output ? last : output;
  }
};

template <class Index>
struct Pool {
  Index channels;
  Axis<Index> rows, columns;
  Index items;            // work items, one per thread and step
  Index groups_of_pixel;  // groups of kCount channels per pixel

  __device__ Index image_at(Index image, Index y, Index x) const {
    return ((image * rows.input + y) * columns.input + x) * channels;
  }
  __device__ Index result_at(Index image, Index y, Index x) const {
    return ((image * rows.output + y) * columns.output + x) * channels;
  }
};

template <class Index>
struct PoolItem {
  Index image, y, x, channel;
};

// Locates item `at` among the pixels of `height` x `width` images.
template <int kCount, class Index>
__device__ inline PoolItem<Index> pool_item(const Pool<Index>& pool, Index at, Index height, Index width) {
  const Index pixel = at / pool.groups_of_pixel, row = pixel / width;
  return {row / height, row % height, pixel % width, (at % pool.groups_of_pixel) * kCount};
}

template <class Index>
__device__ inline Index pool_first() {
  return static_cast<Index>(blockIdx.x) * kPoolThreads + static_cast<Index>(threadIdx.x);
}
template <class Index>
__device__ inline Index pool_step() {
  return static_cast<Index>(gridDim.x) * kPoolThreads;
}

// kCount channels, in the type used for arithmetic.
template <int kCount, class T>
__device__ inline void load_wide(const T* from, Compute<T> (&to)[kCount]) {
  T values[kCount];
  load(from, true, values);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = widen(values[i]);
}
template <int kCount, class T>
__device__ inline void store_narrow(T* to, const Compute<T> (&from)[kCount]) {
  T values[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = narrow<T>(from[i]);
  store(to, true, values);
}

template <class Index>
Pool<Index> pool_of(const PoolSizes& sizes, std::int64_t pixels, int count) {
  const auto axis = [](const PoolAxis& a) {
    return Axis<Index>{static_cast<Index>(a.input), static_cast<Index>(a.kernel), static_cast<Index>(a.stride),
                       static_cast<Index>(a.output), static_cast<Index>(a.before)};
  };
  const std::int64_t groups = sizes.channels / count;
  return {static_cast<Index>(sizes.channels), axis(sizes.rows), axis(sizes.columns),
          static_cast<Index>(pixels * groups), static_cast<Index>(groups)};
}

// True if all positions fit in 32 bits, including those in the padding and one grid step past the end.
inline bool pool_is_small(const PoolSizes& s) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  const auto reach = [](const PoolAxis& a) {
    return a.input + a.kernel + a.stride + a.before < kLimit && a.output * a.stride < kLimit;
  };
  return s.images * s.channels * s.rows.input * s.columns.input < kLimit &&
         s.images * s.channels * s.rows.output * s.columns.output < kLimit && reach(s.rows) && reach(s.columns);
}

// Calls launch_typed.template operator()<T, kCount, Index>(pool, grid), with one item per kCount channels of `pixels`
// pixels.
template <class Launch>
cudaError_t launch_pool(DType dtype, const PoolSizes& sizes, bool vectors, std::int64_t pixels, Launch launch_typed) {
  return dispatch(FloatElements{}, dtype, [&]<class T>() {
    const auto sized = [&]<int kCount>() {
      const dim3 grid(blocks_for(pixels * (sizes.channels / kCount), kPoolThreads));
      if (pool_is_small(sizes))
        return launch_typed.template operator()<T, kCount, std::int32_t>(pool_of<std::int32_t>(sizes, pixels, kCount),
                                                                         grid);
      return launch_typed.template operator()<T, kCount, std::int64_t>(pool_of<std::int64_t>(sizes, pixels, kCount),
                                                                       grid);
    };
    if (vectors && sizes.channels % kVectorOf<T> == 0) return sized.template operator()<kVectorOf<T>>();
    return sized.template operator()<1>();
  });
}

}  // namespace troupe::device
