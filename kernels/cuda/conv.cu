// Device part of conv_launch.hpp.
#include <troupe/kernels/cuda/conv_launch.hpp>
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace {

using device::kBlockThreads;

__device__ inline std::int64_t first_item() {
  return static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
}
__device__ inline std::int64_t item_step() { return static_cast<std::int64_t>(gridDim.x) * kBlockThreads; }

// Transposes through a tile in shared memory so that global reads and writes are both coalesced; one extra column
// avoids bank conflicts.
constexpr int kTile = 32;
constexpr int kTileRows = 8;

template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose(const T* from, T* to, std::int64_t rows, std::int64_t columns, std::int64_t tiles,
              std::int64_t tiles_of_row) {
  __shared__ T tile[kTile][kTile + 1];
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t top = t / tiles_of_row * kTile, left = t % tiles_of_row * kTile;
    for (int i = threadIdx.y; i < kTile; i += kTileRows)
      if (top + i < rows && left + threadIdx.x < columns)
        tile[i][threadIdx.x] = from[(top + i) * columns + left + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kTileRows)
      if (left + i < columns && top + threadIdx.x < rows)
        to[(left + i) * rows + top + threadIdx.x] = tile[threadIdx.x][i];
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) image_window(ImageWindow w, const T* from, T* to, std::int64_t count) {
  for (std::int64_t at = first_item(); at < count; at += item_step()) {
    std::int64_t rest = at;
    const std::int64_t c = rest % w.channels;
    rest /= w.channels;
    const std::int64_t x = rest % w.to_width + w.left;
    rest /= w.to_width;
    const std::int64_t y = rest % w.to_height + w.top, image = rest / w.to_height;
    const bool inside = y >= 0 && y < w.from_height && x >= 0 && x < w.from_width;
    to[at] = inside ? from[((image * w.from_height + y) * w.from_width + x) * w.channels + c] : T{};
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) unfold(UnfoldSizes s, const T* image, T* rows, std::int64_t count) {
  for (std::int64_t at = first_item(); at < count; at += item_step()) {
    std::int64_t rest = at;
    const std::int64_t c = rest % s.channels;
    rest /= s.channels;
    const std::int64_t kx = rest % s.kernel_width;
    rest /= s.kernel_width;
    const std::int64_t ky = rest % s.kernel_height;
    rest /= s.kernel_height;
    const std::int64_t ox = rest % s.out_width;
    rest /= s.out_width;
    const std::int64_t oy = rest % s.out_height, n = rest / s.out_height;
    const std::int64_t y = oy * s.stride_height - s.before_height + ky, x = ox * s.stride_width - s.before_width + kx;
    const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
    rows[at] = inside ? image[((n * s.height + y) * s.width + x) * s.channels + c] : T{};
  }
}

// First window that covers position `at` (padding included); the last is at / stride.
__device__ inline std::int64_t first_window(std::int64_t at, std::int64_t kernel, std::int64_t stride) {
  return at < kernel ? 0 : (at - kernel) / stride + 1;
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    fold(UnfoldSizes s, const device::Compute<T>* rows, T* image, std::int64_t count) {
  for (std::int64_t at = first_item(); at < count; at += item_step()) {
    std::int64_t rest = at;
    const std::int64_t c = rest % s.channels;
    rest /= s.channels;
    const std::int64_t x = rest % s.width + s.before_width;
    rest /= s.width;
    const std::int64_t y = rest % s.height + s.before_height, n = rest / s.height;
    const std::int64_t oy_end = min(y / s.stride_height + 1, s.out_height),
                       ox_end = min(x / s.stride_width + 1, s.out_width);
    device::Compute<T> sum{0};
    for (std::int64_t oy = first_window(y, s.kernel_height, s.stride_height); oy < oy_end; ++oy)
      for (std::int64_t ox = first_window(x, s.kernel_width, s.stride_width); ox < ox_end; ++ox) {
        const std::int64_t ky = y - oy * s.stride_height, kx = x - ox * s.stride_width;
        const std::int64_t window = (n * s.out_height + oy) * s.out_width + ox;
        sum += rows[((window * s.kernel_height + ky) * s.kernel_width + kx) * s.channels + c];
      }
    image[at] = device::narrow<T>(sum);
  }
}

}  // namespace

cudaError_t launch_transpose(std::size_t element_bytes, const void* from, void* to, std::int64_t rows,
                             std::int64_t columns, cudaStream_t stream) {
  const std::int64_t tiles_of_row = (columns + kTile - 1) / kTile, tiles = (rows + kTile - 1) / kTile * tiles_of_row;
  return device::with_sizes(element_bytes, [&]<class T>() {
    return device::launch(transpose<T>, dim3(device::blocks_for(tiles, 1)), dim3(kTile, kTileRows), stream,
                          static_cast<const T*>(from), static_cast<T*>(to), rows, columns, tiles, tiles_of_row);
  });
}

cudaError_t launch_image_window(std::size_t element_bytes, const ImageWindow& w, const void* from, void* to,
                                cudaStream_t stream) {
  const std::int64_t count = w.images * w.to_height * w.to_width * w.channels;
  return device::with_sizes(element_bytes, [&]<class T>() {
    return device::launch(image_window<T>, dim3(device::blocks_for(count, kBlockThreads)), dim3(kBlockThreads), stream,
                          w, static_cast<const T*>(from), static_cast<T*>(to), count);
  });
}

cudaError_t launch_unfold(std::size_t element_bytes, const UnfoldSizes& s, const void* image, void* rows,
                          cudaStream_t stream) {
  const std::int64_t count = s.images * s.out_height * s.out_width * s.kernel_height * s.kernel_width * s.channels;
  return device::with_sizes(element_bytes, [&]<class T>() {
    return device::launch(unfold<T>, dim3(device::blocks_for(count, kBlockThreads)), dim3(kBlockThreads), stream, s,
                          static_cast<const T*>(image), static_cast<T*>(rows), count);
  });
}

cudaError_t launch_fold(DType dtype, const UnfoldSizes& s, const void* rows, void* image, cudaStream_t stream) {
  const std::int64_t count = s.images * s.height * s.width * s.channels;
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(fold<T>, dim3(device::blocks_for(count, kBlockThreads)), dim3(kBlockThreads), stream, s,
                          static_cast<const device::Compute<T>*>(rows), static_cast<T*>(image), count);
  });
}

}  // namespace troupe
