// Device part of gather_launch.hpp: Gather and OneHot.
#include <cuda_runtime.h>

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/gather_launch.hpp>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace device {
namespace {

constexpr int kGatherUnroll = 4;

__device__ std::int64_t gathered_item(int u) {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x * kGatherUnroll) + u * blockDim.x + threadIdx.x;
}

struct Place {
  std::int64_t row;
  std::int64_t column;
};

__device__ Place place_of(const RowItems& items, std::int64_t item) {
  const std::int64_t row = items.wide ? item / items.per_row : items.divider.quotient(static_cast<std::uint32_t>(item));
  return {row, item - row * items.per_row};
}

__device__ std::int64_t index_at(const void* indices, DType type, std::int64_t i) {
  switch (type) {
    case DType::i8:
      return static_cast<const std::int8_t*>(indices)[i];
    case DType::u8:
      return static_cast<const std::uint8_t*>(indices)[i];
    case DType::i16:
      return static_cast<const std::int16_t*>(indices)[i];
    case DType::i32:
      return static_cast<const std::int32_t*>(indices)[i];
    default:
      return static_cast<const std::int64_t*>(indices)[i];
  }
}

template <class T>
__global__ __launch_bounds__(256) void gather_kernel(const __grid_constant__ GatherArguments arguments) {
  const auto* table = static_cast<const T*>(arguments.table);
  auto* out = static_cast<T*>(arguments.out);
  T pieces[kGatherUnroll];
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u) {
    const std::int64_t item = gathered_item(u);
    if (item >= arguments.items.count) continue;
    const Place place = place_of(arguments.items, item);
    const std::int64_t per_slice = arguments.per_slice, slice = per_slice == 0 ? 0 : place.row / per_slice;
    const std::int64_t element =
        slice == 0 ? place.row : (slice / arguments.slices_per_batch - slice) * per_slice + place.row;
    const std::int64_t index = index_at(arguments.indices, arguments.index_type, element);
    const std::int64_t row = index < 0 && arguments.from_end ? index + arguments.rows : index;
    const bool there = row >= 0 && row < arguments.rows;
    pieces[u] = there ? table[(slice * arguments.rows + row) * arguments.items.per_row + place.column] : T{};
    if (!there && place.column == 0) report(arguments.fault, index, element, arguments.rows);
  }
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u)
    if (const std::int64_t item = gathered_item(u); item < arguments.items.count) out[item] = pieces[u];
}

template <class T>
cudaError_t gather(const GatherArguments& arguments, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(arguments.items.count, kGatherUnroll);
  return launch(gather_kernel<T>, grid.blocks, grid.threads, stream, arguments);
}

template <class T>
__global__ __launch_bounds__(256) void one_hot_kernel(const __grid_constant__ OneHotArguments arguments) {
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u) {
    const std::int64_t item = gathered_item(u);
    if (item >= arguments.items.count) continue;
    const Place place = place_of(arguments.items, item);
    const std::int64_t given = index_at(arguments.indices, arguments.index_type, place.row);
    const bool hot = (given < 0 ? given + arguments.items.per_row : given) == place.column;
    static_cast<T*>(arguments.out)[item] = static_cast<T>(hot ? arguments.on : arguments.off);
  }
}

template <class T>
cudaError_t one_hot(const OneHotArguments& arguments, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(arguments.items.count, kGatherUnroll);
  return launch(one_hot_kernel<T>, grid.blocks, grid.threads, stream, arguments);
}

}  // namespace
}  // namespace device

cudaError_t launch_gather(const GatherArguments& arguments, cudaStream_t stream) {
  if (arguments.items.count == 0) return cudaSuccess;
  switch (arguments.piece_bytes) {
    case 1:
      return device::gather<std::uint8_t>(arguments, stream);
    case 2:
      return device::gather<std::uint16_t>(arguments, stream);
    case 4:
      return device::gather<std::uint32_t>(arguments, stream);
    case 8:
      return device::gather<std::uint64_t>(arguments, stream);
    case 16:
      return device::gather<uint4>(arguments, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_one_hot(const OneHotArguments& arguments, cudaStream_t stream) {
  if (arguments.items.count == 0) return cudaSuccess;
  switch (arguments.element_bytes) {
    case 1:
      return device::one_hot<std::uint8_t>(arguments, stream);
    case 2:
      return device::one_hot<std::uint16_t>(arguments, stream);
    case 4:
      return device::one_hot<std::uint32_t>(arguments, stream);
    case 8:
      return device::one_hot<std::uint64_t>(arguments, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace troupe
