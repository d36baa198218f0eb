// Row additions in a fixed order: positions are sorted by row, and one thread adds up each element of a row.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/gather_launch.hpp>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace device {
namespace {

__global__ __launch_bounds__(256) void row_keys_kernel(const __grid_constant__ SortRowsArguments arguments) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= arguments.count) return;
  const std::int64_t index = arguments.indices[i];
  const bool there = index >= 0 && index < arguments.rows;
  arguments.keys[0][i] = static_cast<std::uint32_t>(there ? index : arguments.rows);
  arguments.positions[0][i] = static_cast<std::uint32_t>(i);
  if (!there) report(arguments.fault, index, i, arguments.rows);
}

// One thread per element of the values; only the threads of a row's first position do work.
template <class T>
__global__ __launch_bounds__(256) void add_rows_kernel(const __grid_constant__ AddRowsArguments arguments) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= arguments.items.count) return;
  const std::int64_t width = arguments.items.per_row;
  const std::int64_t first =
      arguments.items.wide ? item / width : arguments.items.divider.quotient(static_cast<std::uint32_t>(item));
  const std::int64_t column = item - first * width;
  const std::uint32_t row = arguments.keys[first];
  if (row >= arguments.rows || (first > 0 && arguments.keys[first - 1] == row)) return;
  const auto* values = static_cast<const T*>(arguments.values);
  // Load several at once, then add in order.
  constexpr int kAtOnce = 4;
  T sum = narrow<T>(Compute<T>{0});
  for (std::int64_t at = first;; at += kAtOnce) {
    T loaded[kAtOnce];
    int count = 0;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const bool mine = at + k < arguments.count && arguments.keys[at + k] == row;
      if (mine) loaded[k] = values[static_cast<std::int64_t>(arguments.positions[at + k]) * width + column];
      count += mine ? 1 : 0;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (k < count) sum = rounded_sum(sum, loaded[k]);
    if (count < kAtOnce) break;
  }
  static_cast<T*>(arguments.out)[static_cast<std::int64_t>(row) * width + column] = sum;
}

cudaError_t sort(const SortRowsArguments& arguments, void* scratch, std::size_t& bytes, cudaStream_t stream) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(arguments.rows)));
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, arguments.keys[0], arguments.keys[1], arguments.positions[0],
                                         arguments.positions[1], static_cast<int>(arguments.count), 0, bits, stream);
}

}  // namespace
}  // namespace device

cudaError_t measure_sort_rows(SortRowsArguments& arguments) {
  return device::sort(arguments, nullptr, arguments.scratch_bytes, nullptr);
}

cudaError_t launch_sort_rows(const SortRowsArguments& arguments, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(arguments.count, 1);
  if (const cudaError_t status = device::launch(device::row_keys_kernel, grid.blocks, grid.threads, stream, arguments);
      status != cudaSuccess)
    return status;
  std::size_t bytes = arguments.scratch_bytes;
  return device::sort(arguments, arguments.scratch, bytes, stream);
}

cudaError_t launch_add_rows(const AddRowsArguments& arguments, cudaStream_t stream) {
  if (arguments.items.count == 0) return cudaSuccess;
  return device::dispatch(device::RealElements{}, arguments.dtype, [&]<class T>() {
    const LaunchGrid grid = grid_for(arguments.items.count, 1);
    return device::launch(device::add_rows_kernel<T>, grid.blocks, grid.threads, stream, arguments);
  });
}

}  // namespace troupe
