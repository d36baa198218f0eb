// Device part of integer_product_launch.hpp.
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/integer_product_launch.hpp>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace device {
namespace {

constexpr int kSide = 16;

// One thread per element of a tile of the result. Both factors pass through shared memory, one square of terms at a
// time.
template <class T>
__global__ void __launch_bounds__(kSide* kSide)
    integer_product(IntegerProduct p, std::int64_t tiles, std::int64_t tiles_of_row) {
  using Unsigned = std::make_unsigned_t<T>;  // wraps
  __shared__ Unsigned left[kSide][kSide + 1], right[kSide][kSide + 1];
  const auto *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t row = tile / tiles_of_row * kSide + y, column = tile % tiles_of_row * kSide + x;
    Unsigned sum = 0;
    for (std::int64_t first = 0; first < p.k; first += kSide) {
      const std::int64_t across = first + x, down = first + y;
      left[y][x] = row < p.m && across < p.k
                       ? static_cast<Unsigned>(a[p.transpose_a ? across * p.m + row : row * p.k + across])
                       : 0;
      right[y][x] = column < p.n && down < p.k
                        ? static_cast<Unsigned>(b[p.transpose_b ? column * p.k + down : down * p.n + column])
                        : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kSide; ++i) sum += left[y][i] * right[i][x];
      __syncthreads();
    }
    if (row < p.m && column < p.n) static_cast<T*>(p.out)[row * p.n + column] = static_cast<T>(sum);
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_integer_product(DType dtype, const IntegerProduct& product, cudaStream_t stream) {
  using device::kSide;
  const std::int64_t tiles_of_row = (product.n + kSide - 1) / kSide,
                     tiles = (product.m + kSide - 1) / kSide * tiles_of_row;
  if (tiles == 0) return cudaSuccess;
  return device::dispatch(device::Elements<std::int32_t, std::int64_t>{}, dtype, [&]<class T>() {
    return device::launch(device::integer_product<T>, device::blocks_for(tiles, 1), dim3(kSide, kSide), stream, product,
                          tiles, tiles_of_row);
  });
}

}  // namespace troupe
