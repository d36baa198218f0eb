// Updates of slices in a fixed order: positions are sorted by slice, and one thread makes all updates of an element.
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cuda/gathered.cuh>

namespace troupe {
namespace device {
namespace {

__global__ __launch_bounds__(256) void slice_keys_kernel(const __grid_constant__ SortSlicesArguments arguments) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= arguments.count) return;
  const std::int64_t slice = addressed(arguments.address, i, true);
  arguments.keys[0][i] = static_cast<std::uint32_t>(slice < 0 ? arguments.slices : slice);
  arguments.positions[0][i] = static_cast<std::uint32_t>(i);
}

template <class U>
__device__ U combined(ScatterCombine combine, U a, U b) {
  switch (combine) {
    case ScatterCombine::add:
      return AddOp{}(a, b);
    case ScatterCombine::sub:
      return SubOp{}(a, b);
    case ScatterCombine::mul:
      return MulOp{}(a, b);
    case ScatterCombine::max:
      return MaximumOp{}(a, b);
    case ScatterCombine::min:
      return MinimumOp{}(a, b);
    default:
      return b;
  }
}

// One thread per element of the updates; only the threads of a slice's first position do work.
template <class T>
__global__ __launch_bounds__(256) void combine_slices_kernel(ScatterCombine combine, ScatterArguments arguments,
                                                             RowItems items) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= items.count || (arguments.guard && failed(arguments.guard))) return;
  const auto [first, column] = row_place(items, item);
  const std::uint32_t slice = arguments.keys[first];
  if (slice >= arguments.slices || (first > 0 && arguments.keys[first - 1] == slice)) return;
  const auto* updates = static_cast<const T*>(arguments.updates);
  T& element = static_cast<T*>(arguments.data)[static_cast<std::int64_t>(slice) * items.per_row + column];
  // Load several at once, then combine in order.
  constexpr int kAtOnce = 4;
  using U = Compute<T>;
  U value = widen(element);
  if (arguments.from_limit)
    value = combine == ScatterCombine::max ? std::numeric_limits<U>::lowest() : std::numeric_limits<U>::max();
  std::int64_t updated = 0;
  for (std::int64_t at = first;; at += kAtOnce) {
    T loaded[kAtOnce];
    int count = 0;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const bool mine = at + k < arguments.count && arguments.keys[at + k] == slice;
      if (mine) loaded[k] = updates[static_cast<std::int64_t>(arguments.positions[at + k]) * items.per_row + column];
      count += mine ? 1 : 0;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (k < count) {
        value = combined(combine, value, widen(loaded[k]));
        if (!arguments.rounds_once) value = widen(narrow<T>(value));
      }
    updated += count;
    if (count < kAtOnce) break;
  }
  if (arguments.mean && updated > 1) value = static_cast<U>(value / static_cast<U>(updated));
  element = narrow<T>(value);
}

__global__ __launch_bounds__(256) void check_ascending_kernel(const void* indices, DType type, std::int64_t count,
                                                              CudaFaultSite fault) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x + 1;
  if (i >= count) return;
  const std::int64_t before = index_at(indices, type, i - 1), index = index_at(indices, type, i);
  if (index < before) report(fault, index, i, before);
}

// One thread per piece of the updates; only those of a slice's last position do work.
template <class T>
__global__ __launch_bounds__(256) void replace_slices_kernel(ScatterArguments arguments, RowItems items) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= items.count || (arguments.guard && failed(arguments.guard))) return;
  const auto [last, column] = row_place(items, item);
  const std::uint32_t slice = arguments.keys[last];
  if (slice >= arguments.slices || (last + 1 < arguments.count && arguments.keys[last + 1] == slice)) return;
  static_cast<T*>(arguments.data)[static_cast<std::int64_t>(slice) * items.per_row + column] =
      static_cast<const T*>(arguments.updates)[arguments.positions[last] * items.per_row + column];
}

cudaError_t sort(const SortSlicesArguments& arguments, void* scratch, std::size_t& bytes, cudaStream_t stream) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(arguments.slices)));
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, arguments.keys[0], arguments.keys[1], arguments.positions[0],
                                         arguments.positions[1], static_cast<int>(arguments.count), 0, bits, stream);
}

}  // namespace
}  // namespace device

cudaError_t measure_sort_slices(SortSlicesArguments& arguments) {
  return device::sort(arguments, nullptr, arguments.scratch_bytes, nullptr);
}

cudaError_t launch_sort_slices(const SortSlicesArguments& arguments, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(arguments.count, 1);
  if (const cudaError_t status =
          device::launch(device::slice_keys_kernel, grid.blocks, grid.threads, stream, arguments);
      status != cudaSuccess)
    return status;
  std::size_t bytes = arguments.scratch_bytes;
  return device::sort(arguments, arguments.scratch, bytes, stream);
}

cudaError_t launch_combine_slices(DType dtype, ScatterCombine combine, const ScatterArguments& arguments,
                                  const RowItems& items, cudaStream_t stream) {
  if (items.count == 0) return cudaSuccess;
  return device::dispatch(device::RealElements{}, dtype, [&]<class T>() {
    const LaunchGrid grid = grid_for(items.count, 1);
    return device::launch(device::combine_slices_kernel<T>, grid.blocks, grid.threads, stream, combine, arguments,
                          items);
  });
}

cudaError_t launch_check_ascending(const void* indices, DType index_type, std::int64_t count, CudaFaultSite fault,
                                   cudaStream_t stream) {
  const LaunchGrid grid = grid_for(count, 1);
  return device::launch(device::check_ascending_kernel, grid.blocks, grid.threads, stream, indices, index_type, count,
                        fault);
}

cudaError_t launch_replace_slices(int piece_bytes, const ScatterArguments& arguments, const RowItems& items,
                                  cudaStream_t stream) {
  if (items.count == 0) return cudaSuccess;
  return device::with_pieces(piece_bytes, [&]<class T>() {
    const LaunchGrid grid = grid_for(items.count, 1);
    return device::launch(device::replace_slices_kernel<T>, grid.blocks, grid.threads, stream, arguments, items);
  });
}

}  // namespace troupe
