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
  Index input, kernel, stride, dilation, output, before, after;

  __device__ Index reach() const { return (kernel - 1) * dilation + 1; }
  // Positions of a window: begin, begin + dilation, ... below end.
  __device__ Index begin(Index window) const {
    const Index at = window * stride - before;
    return at >= 0 ? at : dilation == 1 ? 0 : at + (-at + dilation - 1) / dilation * dilation;
  }
  __device__ Index end(Index window) const {
    const Index at = window * stride - before + reach();
    return at < input ? at : input;
  }
  // Windows that may cover position `at`: from first_window() to end_window().
  __device__ Index first_window(Index at) const {
    return at + before < reach() ? 0 : (at + before - reach()) / stride + 1;
  }
  __device__ Index end_window(Index at) const {
    const Index last = (at + before) / stride + 1;
    return last < output ? last : output;
  }
  __device__ bool covers(Index window, Index at) const {
    return dilation == 1 || (at + before - window * stride) % dilation == 0;
  }
  // Of a window: what a sum is divided by, as taps_counted() of kernels/common/pool_geometry.hpp.
  __device__ Index counted(Index window, int divisor) const {
    if (divisor == 2) return 1;
    const Index first = begin(window), last = end(window);
    if (divisor == 0) return last <= first ? 0 : (last - first + dilation - 1) / dilation;
    const Index left = input + after - (window * stride - before), taps = (left + dilation - 1) / dilation;
    return taps < 0 ? 0 : taps < kernel ? taps : kernel;
  }
};

template <class Index>
struct Pool {
  Index channels;
  Axis<Index> depth, rows, columns;
  Index items;            // work items, one per thread and step
  Index groups_of_pixel;  // groups of kCount channels per pixel
  int divisor;

  __device__ Index image_at(Index image, Index z, Index y, Index x) const {
    return (((image * depth.input + z) * rows.input + y) * columns.input + x) * channels;
  }
  __device__ Index result_at(Index image, Index z, Index y, Index x) const {
    return (((image * depth.output + z) * rows.output + y) * columns.output + x) * channels;
  }
  // At least 1.
  __device__ Index counted(Index z, Index y, Index x) const {
    const Index count = depth.counted(z, divisor) * rows.counted(y, divisor) * columns.counted(x, divisor);
    return count > 1 ? count : 1;
  }
};

template <class Index>
struct PoolItem {
  Index image, z, y, x, channel;
};

// Locates item `at` among the pixels of images of this size.
template <int kCount, class Index>
__device__ inline PoolItem<Index> pool_item(const Pool<Index>& pool, Index at, Index depth, Index height, Index width) {
  const Index pixel = at / pool.groups_of_pixel, row = pixel / width, plane = row / height;
  return {plane / depth, plane % depth, row % height, pixel % width, (at % pool.groups_of_pixel) * kCount};
}

// Calls fn(offset in the image) for the elements of a window, in row-major order.
template <class Index, class Fn>
__device__ inline void for_elements(const Pool<Index>& pool, Index image, Index z, Index y, Index x, Fn fn) {
  const Index back = pool.depth.end(z), bottom = pool.rows.end(y), right = pool.columns.end(x);
  for (Index k = pool.depth.begin(z); k < back; k += pool.depth.dilation)
    for (Index i = pool.rows.begin(y); i < bottom; i += pool.rows.dilation)
      for (Index j = pool.columns.begin(x); j < right; j += pool.columns.dilation) fn(pool.image_at(image, k, i, j));
}

// Calls fn(window z, y, x) for the windows that cover an item's pixel, in row-major order.
template <class Index, class Fn>
__device__ inline void for_windows(const Pool<Index>& pool, const PoolItem<Index>& item, Fn fn) {
  const Index plane_end = pool.depth.end_window(item.z), row_end = pool.rows.end_window(item.y),
              column_end = pool.columns.end_window(item.x);
  for (Index wz = pool.depth.first_window(item.z); wz < plane_end; ++wz)
    for (Index wy = pool.rows.first_window(item.y); wy < row_end; ++wy)
      for (Index wx = pool.columns.first_window(item.x); wx < column_end; ++wx)
        if (pool.depth.covers(wz, item.z) && pool.rows.covers(wy, item.y) && pool.columns.covers(wx, item.x))
          fn(wz, wy, wx);
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
    return Axis<Index>{static_cast<Index>(a.input),    static_cast<Index>(a.kernel), static_cast<Index>(a.stride),
                       static_cast<Index>(a.dilation), static_cast<Index>(a.output), static_cast<Index>(a.before),
                       static_cast<Index>(a.after)};
  };
  const std::int64_t groups = sizes.channels / count;
  return {static_cast<Index>(sizes.channels),  axis(sizes.depth),          axis(sizes.rows), axis(sizes.columns),
          static_cast<Index>(pixels * groups), static_cast<Index>(groups), sizes.divisor};
}

// True if all positions fit in 32 bits, including those in the padding and one grid step past the end.
inline bool pool_is_small(const PoolSizes& s) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  const auto reach = [](const PoolAxis& a) {
    return a.input + a.kernel * a.dilation + a.stride + a.before + a.after < kLimit && a.output * a.stride < kLimit;
  };
  return s.images * s.channels * s.depth.input * s.rows.input * s.columns.input < kLimit &&
         s.images * s.channels * s.depth.output * s.rows.output * s.columns.output < kLimit && reach(s.depth) &&
         reach(s.rows) && reach(s.columns);
}

// Calls launch_typed.template operator()<T, kCount, Index>(pool, grid) for one of the types, with one item per kCount
// channels of `pixels` pixels.
template <class List, class Launch>
cudaError_t launch_pool(List types, DType dtype, const PoolSizes& sizes, bool vectors, std::int64_t pixels,
                        Launch launch_typed) {
  return dispatch(types, dtype, [&]<class T>() {
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
