// Device part of bias_launch.hpp.
#include <troupe/kernels/cuda/bias_launch.hpp>
#include <troupe/kernels/cuda/column_walk.cuh>

namespace troupe {
namespace device {
namespace {

template <class T, int kVector>
__global__ void __launch_bounds__(kWalkThreads)
    add_bias(const T* x, const T* bias, T* out, std::int64_t rows, std::int64_t width, int across, bool vectors) {
  struct Added {
    T bias[kVector];
    __device__ void operator()(T (&values)[1][kVector]) const {
#pragma unroll
      for (int v = 0; v < kVector; ++v) values[0][v] = narrow<T>(widen(values[0][v]) + widen(bias[v]));
    }
  };
  const T* const inputs[] = {x};
  walk_columns<kVector>(inputs, out, rows, width, across, vectors, [&](std::int64_t column) {
    Added added;
    load<kVector>(bias + column, vectors, added.bias);
    return added;
  });
}

template <class T, int kVector>
cudaError_t launch_of(const void* x, const void* bias, void* out, std::int64_t rows, std::int64_t width,
                      cudaStream_t stream) {
  const auto *from = static_cast<const T*>(x), *added = static_cast<const T*>(bias);
  auto* to = static_cast<T*>(out);
  const ColumnWalk walk = column_walk<kVector>(rows, width, 8);
  return launch(add_bias<T, kVector>, walk.grid, kWalkThreads, stream, from, added, to, rows, width, walk.across,
                aligned(from, added, to));
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    add_plane_bias(const T* x, const T* bias, T* out, std::int64_t count, std::int64_t channels, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < count; i += step)
    out[i] = narrow<T>(widen(x[i]) + widen(bias[i / size % channels]));
}

}  // namespace
}  // namespace device

cudaError_t launch_bias_add(DType dtype, const void* x, const void* bias, void* out, std::int64_t rows,
                            std::int64_t width, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    constexpr int kFull = device::kVectorOf<T>;
    return width % kFull == 0 ? device::launch_of<T, kFull>(x, bias, out, rows, width, stream)
                              : device::launch_of<T, 1>(x, bias, out, rows, width, stream);
  });
}

cudaError_t launch_bias_add_planes(DType dtype, const void* x, const void* bias, void* out, std::int64_t planes,
                                   std::int64_t channels, std::int64_t size, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    const dim3 grid(device::blocks_for(planes * size, device::kBlockThreads)), block(device::kBlockThreads);
    return device::launch(device::add_plane_bias<T>, grid, block, stream, static_cast<const T*>(x),
                          static_cast<const T*>(bias), static_cast<T*>(out), planes * size, channels, size);
  });
}

}  // namespace troupe
