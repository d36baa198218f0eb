// Device part of pool_launch.hpp: maxima.
#include <troupe/kernels/cuda/pool_windows.cuh>

namespace troupe {
namespace {

using namespace troupe::device;

template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads) max_pool(Pool<Index> pool, const T* x, T* y) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.rows.output, pool.columns.output);
    const Index top = pool.rows.begin(item.y), bottom = pool.rows.end(item.y), left = pool.columns.begin(item.x),
                right = pool.columns.end(item.x);
    Compute<T> best[kCount];
    load_wide(x + pool.image_at(item.image, top, left) + item.channel, best);
    for (Index i = top; i < bottom; ++i)
      for (Index j = left; j < right; ++j) {
        Compute<T> values[kCount];
        load_wide(x + pool.image_at(item.image, i, j) + item.channel, values);
#pragma unroll
        for (int c = 0; c < kCount; ++c)
          best[c] = ((values[c] > best[c]) | (values[c] != values[c])) ? values[c] : best[c];
      }
    store_narrow(y + pool.result_at(item.image, item.y, item.x) + item.channel, best);
  }
}

// Adds the gradient of each window in which this pixel is the first maximum, or the first NaN.
template <class T, int kCount, class Index>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_grad(Pool<Index> pool, const T* x, const T* y, const T* dy, T* dx) {
  for (Index at = pool_first<Index>(); at < pool.items; at += pool_step<Index>()) {
    const PoolItem<Index> item = pool_item<kCount>(pool, at, pool.rows.input, pool.columns.input);
    Compute<T> own[kCount], sum[kCount];
    load_wide(x + pool.image_at(item.image, item.y, item.x) + item.channel, own);
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = Compute<T>{0};
    const Index row_end = pool.rows.end_window(item.y), column_end = pool.columns.end_window(item.x);
    for (Index wy = pool.rows.first_window(item.y); wy < row_end; ++wy)
      for (Index wx = pool.columns.first_window(item.x); wx < column_end; ++wx) {
        const Index window = pool.result_at(item.image, wy, wx) + item.channel;
        Compute<T> most[kCount], given[kCount];
        load_wide(y + window, most);
        load_wide(dy + window, given);
        unsigned mine = 0;  // one bit per channel
#pragma unroll
        for (int c = 0; c < kCount; ++c) mine |= (((own[c] == most[c]) | (own[c] != own[c])) ? 1u : 0u) << c;
        // Drops channels that have an earlier maximum in the window, until none is left.
        const Index left = pool.columns.begin(wx), right = pool.columns.end(wx);
        for (Index i = pool.rows.begin(wy); i <= item.y && mine != 0; ++i) {
          const Index stop = i == item.y ? item.x : right;
          for (Index j = left; j < stop && mine != 0; ++j) {
            Compute<T> values[kCount];
            load_wide(x + pool.image_at(item.image, i, j) + item.channel, values);
#pragma unroll
            for (int c = 0; c < kCount; ++c)
              mine &= ~((((values[c] == most[c]) | (values[c] != values[c])) ? 1u : 0u) << c);
          }
        }
#pragma unroll
        for (int c = 0; c < kCount; ++c) sum[c] += (mine >> c & 1u) != 0 ? given[c] : Compute<T>{0};
      }
    store_narrow(dx + pool.image_at(item.image, item.y, item.x) + item.channel, sum);
  }
}

}  // namespace

cudaError_t launch_max_pool(DType dtype, const PoolSizes& s, const void* x, void* y, cudaStream_t stream) {
  return launch_pool(dtype, s, aligned(x, y), s.images * s.rows.output * s.columns.output,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(max_pool<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(x), static_cast<T*>(y));
                     });
}

cudaError_t launch_max_pool_grad(DType dtype, const PoolSizes& s, const void* x, const void* y, const void* dy,
                                 void* dx, cudaStream_t stream) {
  return launch_pool(dtype, s, aligned(x, y, dy, dx), s.images * s.rows.input * s.columns.input,
                     [&]<class T, int kCount, class Index>(const Pool<Index>& pool, dim3 grid) {
                       return launch(max_pool_grad<T, kCount, Index>, grid, dim3(kPoolThreads), stream, pool,
                                     static_cast<const T*>(x), static_cast<const T*>(y), static_cast<const T*>(dy),
                                     static_cast<T*>(dx));
                     });
}

}  // namespace troupe
