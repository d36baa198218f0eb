// Device part of layout_launch.hpp: a thread per element of the result.
#include <troupe/kernels/cuda/gathered.cuh>
#include <troupe/kernels/cuda/layout_launch.hpp>

namespace troupe {
namespace device {
namespace {

template <class T>
__global__ void __launch_bounds__(kBlockThreads) trilu_kernel(TriluLaunch l) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < l.count; i += step) {
    const std::int64_t column = i % l.columns, row = i / l.columns % l.rows;
    const bool kept = l.upper ? column >= row + l.k : column <= row + l.k;
    static_cast<T*>(l.out)[i] = kept ? static_cast<const T*>(l.x)[i] : T{0};
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) fold_kernel(FoldLaunch l) {
  const auto* dy = static_cast<const T*>(l.dy);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < l.count; i += step) {
    const std::int64_t inner = i % l.inner, row = i / l.inner, element = row % l.size, outer = row / l.size;
    Compute<T> sum = 0;
    for (std::int64_t p = l.starts[element]; p < l.starts[element + 1]; ++p)
      sum += widen(dy[(outer * l.dy_size + l.places[p]) * l.inner + inner]);
    static_cast<T*>(l.out)[i] = narrow<T>(sum);
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_trilu(const TriluLaunch& l, cudaStream_t stream) {
  return device::with_sizes(l.element_bytes, [&]<class T>() {
    return device::launch(device::trilu_kernel<T>, device::blocks_for(l.count, device::kBlockThreads),
                          device::kBlockThreads, stream, l);
  });
}

cudaError_t launch_fold(const FoldLaunch& l, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, l.dtype, [&]<class T>() {
    return device::launch(device::fold_kernel<T>, device::blocks_for(l.count, device::kBlockThreads),
                          device::kBlockThreads, stream, l);
  });
}

}  // namespace troupe
