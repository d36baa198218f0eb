// Device part of pool_launch.hpp: maxima.
#include <cmath>
#include <limits>

#include <troupe/kernels/cuda/pool_windows.cuh>

namespace troupe {
namespace {

using namespace troupe::device;

using MaxElements = Elements<float, double, __half, __nv_bfloat16, std::int8_t, std::uint8_t>;

// The maximum of nothing.
template <class U>
__device__ U least() {
  if constexpr (std::is_integral_v<U>)
    return std::numeric_limits<U>::lowest();
  else
    return static_cast<U>(-INFINITY);
}

template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads) max_pool(Pool<Index> pool, const T* x, T* y) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.depth.output, pool.rows.output, pool.columns.output);
    Compute<T> best[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) best[c] = least<Compute<T>>();
    for_elements(pool, item.image, item.z, item.y, item.x, [&](Index from) {
      Compute<T> values[kCount];
      load_wide(x + from + item.channel, values);
#pragma unroll
      for (int c = 0; c < kCount; ++c)
        best[c] = ((values[c] > best[c]) | (values[c] != values[c])) ? values[c] : best[c];
    });
    store_narrow(y + pool.result_at(item.image, item.z, item.y, item.x) + item.channel, best);
  }
}

// One thread per element of the result. The first maximum, or the first NaN.
template <class T, class Index>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_indices(Pool<Index> pool, const T* x, T* y, std::int64_t* indices) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<1>(pool, at, pool.depth.output, pool.rows.output, pool.columns.output);
    Compute<T> best = least<Compute<T>>();
    std::int64_t place = -1;
    for_elements(pool, item.image, item.z, item.y, item.x, [&](Index from) {
      const Compute<T> value = widen(x[from + item.channel]);
      if (place >= 0 && !(value > best || (value != value && best == best))) return;
      best = value;
      place = from + item.channel;
    });
    y[at] = narrow<T>(best);
    indices[at] = place;
  }
}

// Adds the gradient of each window in which this pixel is the first maximum, or the first NaN.
template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_grad(Pool<Index> pool, const T* x, const T* y, const T* dy, T* dx) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.depth.input, pool.rows.input, pool.columns.input);
    Compute<T> own[kCount], sum[kCount];
    load_wide(x + pool.image_at(item.image, item.z, item.y, item.x) + item.channel, own);
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = Compute<T>{0};
    const Index here = pool.image_at(item.image, item.z, item.y, item.x);
    for_windows(pool, item, [&](Index wz, Index wy, Index wx) {
      const Index window = pool.result_at(item.image, wz, wy, wx) + item.channel;
      Compute<T> most[kCount], given[kCount];
      load_wide(y + window, most);
      load_wide(dy + window, given);
      unsigned mine = 0;  // one bit per channel
#pragma unroll
      for (int c = 0; c < kCount; ++c) mine |= (((own[c] == most[c]) | (own[c] != own[c])) ? 1u : 0u) << c;
      // Drops channels that have an earlier maximum in the window, until none is left.
      for_elements(pool, item.image, wz, wy, wx, [&](Index from) {
        if (from >= here || mine == 0) return;
        Compute<T> values[kCount];
        load_wide(x + from + item.channel, values);
#pragma unroll
        for (int c = 0; c < kCount; ++c)
          mine &= ~((((values[c] == most[c]) | (values[c] != values[c])) ? 1u : 0u) << c);
      });
#pragma unroll
      for (int c = 0; c < kCount; ++c) sum[c] += (mine >> c & 1u) != 0 ? given[c] : Compute<T>{0};
    });
    store_narrow(dx + pool.image_at(item.image, item.z, item.y, item.x) + item.channel, sum);
  }
}

}  // namespace

cudaError_t launch_max_pool(DType dtype, const PoolSizes& s, const void* x, void* y, cudaStream_t stream) {
  return launch_pool(MaxElements{}, dtype, s, aligned(x, y),
                     s.images * s.depth.output * s.rows.output * s.columns.output,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(max_pool<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(x), static_cast<T*>(y));
                     });
}

cudaError_t launch_max_pool_indices(DType dtype, const PoolSizes& s, const void* x, void* y, std::int64_t* indices,
                                    cudaStream_t stream) {
  const std::int64_t pixels = s.images * s.depth.output * s.rows.output * s.columns.output;
  return dispatch(MaxElements{}, dtype, [&]<class T>() {
    const auto start = [&]<class Index>(Index) {
      return launch(max_pool_indices<T, Index>, blocks_for(pixels * s.channels, kPoolThreads), kPoolThreads, stream,
                    pool_of<Index>(s, pixels, 1), static_cast<const T*>(x), static_cast<T*>(y), indices);
    };
    return pool_is_small(s) ? start(std::int32_t{}) : start(std::int64_t{});
  });
}

cudaError_t launch_max_pool_grad(DType dtype, const PoolSizes& s, const void* x, const void* y, const void* dy,
                                 void* dx, cudaStream_t stream) {
  return launch_pool(
      FloatElements{}, dtype, s, aligned(x, y, dy, dx), s.images * s.depth.input * s.rows.input * s.columns.input,
      [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
        return launch(max_pool_grad<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool, static_cast<const T*>(x),
                      static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
      });
}

}  // namespace troupe
