// Device part of pool_launch.hpp: averages.
#include <troupe/kernels/cuda/pool_windows.cuh>

namespace troupe {
namespace {

using namespace troupe::device;

template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads) avg_pool(Pool<Index> pool, const T* x, T* y) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.rows.output, pool.columns.output);
    const Index top = pool.rows.begin(item.y), bottom = pool.rows.end(item.y), left = pool.columns.begin(item.x),
                right = pool.columns.end(item.x);
    Compute<T> sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = Compute<T>{0};
    for (Index i = top; i < bottom; ++i)
      for (Index j = left; j < right; ++j) {
        Compute<T> values[kCount];
        load_wide(x + pool.image_at(item.image, i, j) + item.channel, values);
#pragma unroll
        for (int c = 0; c < kCount; ++c) sum[c] += values[c];
      }
    const auto count = static_cast<Compute<T>>((bottom - top) * (right - left));
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] /= count;
    store_narrow(y + pool.result_at(item.image, item.y, item.x) + item.channel, sum);
  }
}

template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads) avg_pool_grad(Pool<Index> pool, const T* dy, T* dx) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.rows.input, pool.columns.input);
    Compute<T> sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = Compute<T>{0};
    const Index row_end = pool.rows.end_window(item.y), column_end = pool.columns.end_window(item.x);
    for (Index wy = pool.rows.first_window(item.y); wy < row_end; ++wy)
      for (Index wx = pool.columns.first_window(item.x); wx < column_end; ++wx) {
        Compute<T> given[kCount];
        load_wide(dy + pool.result_at(item.image, wy, wx) + item.channel, given);
        const auto count = static_cast<Compute<T>>((pool.rows.end(wy) - pool.rows.begin(wy)) *
                                                   (pool.columns.end(wx) - pool.columns.begin(wx)));
#pragma unroll
        for (int c = 0; c < kCount; ++c) sum[c] += given[c] / count;
      }
    store_narrow(dx + pool.image_at(item.image, item.y, item.x) + item.channel, sum);
  }
}

}  // namespace

cudaError_t launch_avg_pool(DType dtype, const PoolSizes& s, const void* x, void* y, cudaStream_t stream) {
  return launch_pool(dtype, s, aligned(x, y), s.images * s.rows.output * s.columns.output,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(avg_pool<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(x), static_cast<T*>(y));
                     });
}

cudaError_t launch_avg_pool_grad(DType dtype, const PoolSizes& s, const void* dy, void* dx, cudaStream_t stream) {
  return launch_pool(dtype, s, aligned(dy, dx), s.images * s.rows.input * s.columns.input,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(avg_pool_grad<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(dy), static_cast<T*>(dx));
                     });
}

}  // namespace troupe
