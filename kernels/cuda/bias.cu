#include "kernels/cuda/bias_launch.hpp"
#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/launch.cuh"

namespace troupe {
namespace device {
namespace {

constexpr int kThreads = 256;

// A thread keeps the bias of its columns and goes down the rows.
template <class T, int kVector>
__global__ void __launch_bounds__(kThreads)
    add_bias(const T* x, const T* bias, T* out, std::int64_t rows, std::int64_t width, int across, bool vectors) {
  const int thread = static_cast<int>(threadIdx.x), down = kThreads / across;
  for (std::int64_t tile = blockIdx.y; tile * across * kVector < width; tile += gridDim.y) {
    const std::int64_t column = (tile * across + thread % across) * kVector;
    if (column >= width) continue;
    T added[kVector];
    load<kVector>(bias + column, vectors, added);
#pragma unroll 4
    for (std::int64_t row = blockIdx.x * static_cast<std::int64_t>(down) + thread / across; row < rows; row += gridDim.x * static_cast<std::int64_t>(down)) {
      T values[kVector];
      load<kVector>(x + row * width + column, vectors, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) values[v] = narrow<T>(widen(values[v]) + widen(added[v]));
      store<kVector>(out + row * width + column, vectors, values);
    }
  }
}

template <class T, int kVector>
cudaError_t launch_of(const void* x, const void* bias, void* out, std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  const auto *from = static_cast<const T*>(x), *added = static_cast<const T*>(bias);
  auto* to = static_cast<T*>(out);
  int across = 1;
  while (across < kThreads && across * kVector < width) across *= 2;
  const std::int64_t tiles = (width + across * kVector - 1) / (across * kVector);
  constexpr std::int64_t kRowsOfThread = 8;
  const dim3 grid(blocks_for(rows, kThreads / across * kRowsOfThread), static_cast<unsigned>(std::min<std::int64_t>(tiles, 65535)));
  return launch(add_bias<T, kVector>, grid, kThreads, stream, from, added, to, rows, width, across, aligned(from, added, to));
}

}  // namespace
}  // namespace device

cudaError_t launch_bias_add(DType dtype, const void* x, const void* bias, void* out, std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    constexpr int kFull = device::kVectorOf<T>;
    return width % kFull == 0 ? device::launch_of<T, kFull>(x, bias, out, rows, width, stream)
                              : device::launch_of<T, 1>(x, bias, out, rows, width, stream);
  });
}

}  // namespace troupe
