// Device part of pool_launch.hpp: averages.
#include <troupe/kernels/cuda/pool_windows.cuh>

namespace troupe {
namespace {

using namespace troupe::device;

template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads) avg_pool(Pool<Index> pool, const T* x, T* y) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.depth.output, pool.rows.output, pool.columns.output);
    Compute<T> sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = Compute<T>{0};
    for_elements(pool, item.image, item.z, item.y, item.x, [&](Index from) {
      Compute<T> values[kCount];
      load_wide(x + from + item.channel, values);
#pragma unroll
      for (int c = 0; c < kCount; ++c) sum[c] += values[c];
    });
    const auto count = static_cast<Compute<T>>(pool.counted(item.z, item.y, item.x));
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] /= count;
    store_narrow(y + pool.result_at(item.image, item.z, item.y, item.x) + item.channel, sum);
  }
}

template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads) avg_pool_grad(Pool<Index> pool, const T* dy, T* dx) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.depth.input, pool.rows.input, pool.columns.input);
    Compute<T> sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = Compute<T>{0};
    for_windows(pool, item, [&](Index wz, Index wy, Index wx) {
      Compute<T> given[kCount];
      load_wide(dy + pool.result_at(item.image, wz, wy, wx) + item.channel, given);
      const auto count = static_cast<Compute<T>>(pool.counted(wz, wy, wx));
#pragma unroll
      for (int c = 0; c < kCount; ++c) sum[c] += given[c] / count;
    });
    store_narrow(dx + pool.image_at(item.image, item.z, item.y, item.x) + item.channel, sum);
  }
}

}  // namespace

cudaError_t launch_avg_pool(DType dtype, const PoolSizes& s, const void* x, void* y, cudaStream_t stream) {
  return launch_pool(FloatElements{}, dtype, s, aligned(x, y),
                     s.images * s.depth.output * s.rows.output * s.columns.output,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(avg_pool<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(x), static_cast<T*>(y));
                     });
}

cudaError_t launch_avg_pool_grad(DType dtype, const PoolSizes& s, const void* dy, void* dx, cudaStream_t stream) {
  return launch_pool(FloatElements{}, dtype, s, aligned(dy, dx),
                     s.images * s.depth.input * s.rows.input * s.columns.input,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(avg_pool_grad<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(dy), static_cast<T*>(dx));
                     });
}

}  // namespace troupe
