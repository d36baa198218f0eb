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
  using Wide = std::common_type_t<T, std::uint32_t>;  // wraps; small integers would become signed
  __shared__ Wide left[kSide][kSide + 1], right[kSide][kSide + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::int64_t index = blockIdx.x; index < tiles * p.batch; index += gridDim.x) {
    const std::int64_t product = index / tiles, tile = index % tiles;
    const T *const a = static_cast<const T*>(p.a) + product * p.a_step, *const b = static_cast<const T*>(p.b) +
                                                                                   product * p.b_step;
    T* const out = static_cast<T*>(p.out) + product * p.m * p.n;
    const std::int64_t row = tile / tiles_of_row * kSide + y, column = tile % tiles_of_row * kSide + x;
    Wide sum = 0;
    for (std::int64_t first = 0; first < p.k; first += kSide) {
      const std::int64_t across = first + x, down = first + y;
      left[y][x] =
          row < p.m && across < p.k ? static_cast<Wide>(a[p.transpose_a ? across * p.m + row : row * p.k + across]) : 0;
      right[y][x] = column < p.n && down < p.k
                        ? static_cast<Wide>(b[p.transpose_b ? column * p.k + down : down * p.n + column])
                        : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kSide; ++i) sum += left[y][i] * right[i][x];
      __syncthreads();
    }
    if (row < p.m && column < p.n) out[row * p.n + column] = static_cast<T>(sum);
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_integer_product(DType dtype, const IntegerProduct& product, cudaStream_t stream) {
  using device::kSide;
  const std::int64_t tiles_of_row = (product.n + kSide - 1) / kSide,
                     tiles = (product.m + kSide - 1) / kSide * tiles_of_row;
  if (tiles == 0 || product.batch == 0) return cudaSuccess;
  const auto start = [&]<class T>(T) {
    return device::launch(device::integer_product<T>, device::blocks_for(tiles * product.batch, 1), dim3(kSide, kSide),
                          stream, product, tiles, tiles_of_row);
  };
  switch (size_of(dtype)) {  // modulo 2^bits, signs do not matter
    case 1:
      return start(std::uint8_t{});
    case 2:
      return start(std::uint16_t{});
    case 4:
      return start(std::uint32_t{});
    default:
      return start(std::uint64_t{});
  }
}

}  // namespace troupe
