// Device part of movement_launch.hpp.
#include <troupe/kernels/cuda/index_plan.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/movement_launch.hpp>
#include <troupe/kernels/cuda/pack.cuh>

namespace troupe {
namespace device {
namespace {

constexpr int kMoveUnroll = 4;

__device__ std::int64_t moved_item(int u) {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x * kMoveUnroll) + u * blockDim.x + threadIdx.x;
}

// T: any type with the size of an element.
template <class T>
__global__ __launch_bounds__(kBlockThreads) void copy_items(const __grid_constant__ CopyPlan copy, const T* source,
                                                            T* target) {
  T values[kMoveUnroll];
  std::int64_t places[kMoveUnroll];
#pragma unroll
  for (int u = 0; u < kMoveUnroll; ++u) {
    const std::int64_t item = moved_item(u);
    if (item >= copy.plan.items) continue;
    const Offsets<2> offsets = locate(copy.plan, item);
    values[u] = source[offsets.of[0]];
    places[u] = offsets.of[1];
  }
#pragma unroll
  for (int u = 0; u < kMoveUnroll; ++u)
    if (moved_item(u) < copy.plan.items) target[places[u]] = values[u];
}

template <class T, int kWidth>
__global__ __launch_bounds__(kBlockThreads) void copy_same(const __grid_constant__ CopyPlan copy, const T* source,
                                                           T* target) {
#pragma unroll
  for (int u = 0; u < kMoveUnroll; ++u) {
    const std::int64_t item = moved_item(u);
    if (item >= copy.plan.items) continue;
    const Offsets<2> offsets = locate(copy.plan, item);
    const T value = source[offsets.of[0]];
    Pack<T, kWidth> pack;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.values[i] = value;
    store_pack(pack, target + offsets.of[1]);
  }
  // Only plans of rank 1 have a rest.
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x < static_cast<unsigned>(copy.plan.rest))
    target[copy.plan.items * kWidth + threadIdx.x] = *source;
}

// Copies one tile: reads along the rows, contiguous in the source, and writes along the columns.
template <class T>
__global__ __launch_bounds__(kBlockThreads) void copy_tiles(const __grid_constant__ CopyPlan copy, const T* source,
                                                            T* target, unsigned row_tiles, unsigned column_tiles) {
  constexpr int kSide = tile_side(static_cast<int>(sizeof(T)));
  __shared__ T tile[kSide][kSide + 1];
  const unsigned lane = threadIdx.x % 32, line = threadIdx.x / 32;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x % column_tiles) * kSide;
  const unsigned above = blockIdx.x / column_tiles;
  const std::int64_t first_row = static_cast<std::int64_t>(above % row_tiles) * kSide;
  const Offsets<2> offsets = locate(copy.plan, above / row_tiles);
  source += offsets.of[0];
  target += offsets.of[1];
#pragma unroll
  for (int c = 0; c < kSide; c += kBlockThreads / 32)
#pragma unroll
    for (int r = 0; r < kSide; r += 32) {
      const std::int64_t column = first_column + c + line, row = first_row + r + lane;
      if (column < copy.columns && row < copy.rows)
        tile[c + line][r + lane] = source[column * copy.source_column + row];
    }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kSide; r += kBlockThreads / 32)
#pragma unroll
    for (int c = 0; c < kSide; c += 32) {
      const std::int64_t row = first_row + r + line, column = first_column + c + lane;
      if (column < copy.columns && row < copy.rows) target[row * copy.target_row + column] = tile[c + lane][r + line];
    }
}

template <class T>
cudaError_t launch_items(const CopyPlan& plan, const void* source, void* target, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(plan.plan.items, kMoveUnroll, kBlockThreads);
  return launch(copy_items<T>, grid.blocks, grid.threads, stream, plan, static_cast<const T*>(source),
                static_cast<T*>(target));
}

template <class T>
cudaError_t launch_other(const CopyPlan& plan, const void* source, void* target, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(source);
  auto* to = static_cast<T*>(target);
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  if (plan.kind == CopyKind::tiles) {
    constexpr std::int64_t kSide = tile_side(static_cast<int>(sizeof(T)));
    const std::int64_t row_tiles = (plan.rows - 1) / kSide + 1, column_tiles = (plan.columns - 1) / kSide + 1;
    return launch(copy_tiles<T>, static_cast<unsigned>(row_tiles * column_tiles * plan.plan.items), kBlockThreads,
                  stream, plan, from, to, static_cast<unsigned>(row_tiles), static_cast<unsigned>(column_tiles));
  }
  if (plan.kind == CopyKind::items) return launch_items<T>(plan, source, target, stream);
  const LaunchGrid grid = grid_for(plan.plan.items, kMoveUnroll, kBlockThreads);
  if (plan.plan.width == kWidth) return launch(copy_same<T, kWidth>, grid.blocks, grid.threads, stream, plan, from, to);
  if (plan.plan.width == 1) return launch(copy_same<T, 1>, grid.blocks, grid.threads, stream, plan, from, to);
  return cudaErrorInvalidValue;
}

template <class T>
__global__ __launch_bounds__(kBlockThreads) void fill_kernel(T value, T* target, std::int64_t count) {
#pragma unroll
  for (int u = 0; u < kMoveUnroll; ++u)
    if (const std::int64_t item = moved_item(u); item < count) target[item] = value;
}

template <class T>
cudaError_t fill(T value, void* target, std::int64_t count, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(count, kMoveUnroll, kBlockThreads);
  return launch(fill_kernel<T>, grid.blocks, grid.threads, stream, value, static_cast<T*>(target), count);
}

}  // namespace
}  // namespace device

cudaError_t launch_copy(const CopyPlan& plan, const void* source, void* target, cudaStream_t stream) {
  if (plan.kind == CopyKind::whole)
    return cudaMemcpyAsync(target, source, static_cast<std::size_t>(plan.plan.items * plan.element_bytes),
                           cudaMemcpyDeviceToDevice, stream);
  switch (plan.element_bytes) {
    case 1:
      return device::launch_other<std::uint8_t>(plan, source, target, stream);
    case 2:
      return device::launch_other<std::uint16_t>(plan, source, target, stream);
    case 4:
      return device::launch_other<std::uint32_t>(plan, source, target, stream);
    case 8:
      return device::launch_other<std::uint64_t>(plan, source, target, stream);
    case 16:
      return plan.kind == CopyKind::items ? device::launch_items<uint4>(plan, source, target, stream)
                                          : cudaErrorInvalidValue;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_fill(std::uint64_t bits, std::size_t element_bytes, void* target, std::int64_t count,
                        cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  for (std::size_t bytes = element_bytes; bytes < 8; bytes *= 2) bits |= bits << (8 * bytes);
  const auto all = static_cast<std::size_t>(count) * element_bytes;
  if (is_multiple(target, 16) && all % 16 == 0) {
    const auto low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
    return device::fill(make_uint4(low, high, low, high), target, static_cast<std::int64_t>(all / 16), stream);
  }
  switch (element_bytes) {
    case 1:
      return device::fill(static_cast<std::uint8_t>(bits), target, count, stream);
    case 2:
      return device::fill(static_cast<std::uint16_t>(bits), target, count, stream);
    case 4:
      return device::fill(static_cast<std::uint32_t>(bits), target, count, stream);
    case 8:
      return device::fill(bits, target, count, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace troupe
