// Device part of gather_launch.hpp: gathers and OneHot.
#include <troupe/kernels/cuda/gathered.cuh>

namespace troupe {
namespace device {
namespace {

// The thread's items become piece(place): all are loaded before the first is stored.
template <class T, class Piece>
__device__ void gather_pieces(const RowItems& items, T* out, Piece piece) {
  T pieces[kGatherUnroll];
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u)
    if (const std::int64_t item = gathered_item(u); item < items.count) pieces[u] = piece(row_place(items, item));
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u)
    if (const std::int64_t item = gathered_item(u); item < items.count) out[item] = pieces[u];
}

template <class T>
__global__ __launch_bounds__(256) void gather_kernel(const __grid_constant__ GatherArguments arguments) {
  const auto* table = static_cast<const T*>(arguments.table);
  gather_pieces(arguments.items, static_cast<T*>(arguments.out), [&](const RowPlace& place) {
    const std::int64_t per_slice = arguments.per_slice, slice = per_slice == 0 ? 0 : place.row / per_slice;
    const std::int64_t element =
        slice == 0 ? place.row : (slice / arguments.slices_per_batch - slice) * per_slice + place.row;
    const std::int64_t index = index_at(arguments.indices, arguments.index_type, element);
    const std::int64_t row = index < 0 && arguments.from_end ? index + arguments.rows : index;
    const bool there = row >= 0 && row < arguments.rows;
    if (!there && place.column == 0) report(arguments.fault, index, element, arguments.rows);
    return there ? table[(slice * arguments.rows + row) * arguments.items.per_row + place.column] : T{};
  });
}

template <class T>
__global__ __launch_bounds__(256) void gather_slices_kernel(const __grid_constant__ GatherSlicesArguments arguments) {
  const auto* data = static_cast<const T*>(arguments.data);
  gather_pieces(arguments.items, static_cast<T*>(arguments.out), [&](const RowPlace& place) {
    const std::int64_t slice = addressed(arguments.address, place.row, place.column == 0);
    return slice < 0 ? T{} : data[slice * arguments.items.per_row + place.column];
  });
}

// Launches a kernel whose threads have kGatherUnroll items each.
template <class Kernel, class Arguments>
cudaError_t launch_gathering(Kernel kernel, const Arguments& arguments, cudaStream_t stream) {
  const LaunchGrid grid = grid_for(arguments.items.count, kGatherUnroll);
  return launch(kernel, grid.blocks, grid.threads, stream, arguments);
}

template <class T>
__global__ __launch_bounds__(256) void one_hot_kernel(const __grid_constant__ OneHotArguments arguments) {
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u) {
    const std::int64_t item = gathered_item(u);
    if (item >= arguments.items.count) continue;
    const RowPlace place = row_place(arguments.items, item);
    const std::int64_t given = index_at(arguments.indices, arguments.index_type, place.row);
    const bool hot = (given < 0 ? given + arguments.items.per_row : given) == place.column;
    static_cast<T*>(arguments.out)[item] = static_cast<T>(hot ? arguments.on : arguments.off);
  }
}

}  // namespace
}  // namespace device

cudaError_t launch_gather(const GatherArguments& arguments, cudaStream_t stream) {
  if (arguments.items.count == 0) return cudaSuccess;
  return device::with_pieces(arguments.piece_bytes, [&]<class T>() {
    return device::launch_gathering(device::gather_kernel<T>, arguments, stream);
  });
}

cudaError_t launch_gather_slices(const GatherSlicesArguments& arguments, cudaStream_t stream) {
  if (arguments.items.count == 0) return cudaSuccess;
  return device::with_pieces(arguments.piece_bytes, [&]<class T>() {
    return device::launch_gathering(device::gather_slices_kernel<T>, arguments, stream);
  });
}

cudaError_t launch_one_hot(const OneHotArguments& arguments, cudaStream_t stream) {
  if (arguments.items.count == 0) return cudaSuccess;
  return device::with_sizes(arguments.element_bytes, [&]<class T>() {
    return device::launch_gathering(device::one_hot_kernel<T>, arguments, stream);
  });
}

}  // namespace troupe
