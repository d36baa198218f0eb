// Elements by index: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/kernels/common/scatter_combine.hpp>
#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Splits all rows of a result into items: a fixed number of pieces per row.
struct RowItems {
  std::int64_t count = 0;
  std::int64_t per_row = 1;
  FastDivider divider;
  bool wide = false;  // 64-bit division
};
constexpr RowItems row_items(std::int64_t rows, std::int64_t per_row) {
  RowItems items;
  items.count = rows * per_row;
  items.per_row = per_row;
  items.wide = items.count >= std::int64_t{1} << 31;
  if (!items.wide && per_row > 0) items.divider = make_divider(static_cast<std::uint32_t>(per_row));
  return items;
}

// Copies row indices[i] of the table to row i of the result; zeros if the index is invalid. Of several slices each has
// `rows` of the table and `per_slice` of the result; `slices_per_batch` of them share `per_slice` indices.
struct GatherArguments {
  const void* table = nullptr;
  const void* indices = nullptr;
  DType index_type = DType::invalid;
  void* out = nullptr;
  std::int64_t rows = 0;       // in the table, of a slice
  std::int64_t per_slice = 0;  // 0: one slice
  std::int64_t slices_per_batch = 1;
  bool from_end = false;  // negative indices count from the end
  int piece_bytes = 1;    // 1, 2, 4, 8 or 16
  RowItems items;         // pieces of the result
  CudaFaultSite fault;    // for an invalid index
};
cudaError_t launch_gather(const GatherArguments& arguments, cudaStream_t stream);

// out[i * depth + indices[i]] = on, all others off; an element is the leading bytes of `on` or `off`.
struct OneHotArguments {
  const void* indices = nullptr;
  DType index_type = DType::invalid;
  void* out = nullptr;
  std::size_t element_bytes = 1;
  std::uint64_t on = 0;
  std::uint64_t off = 0;
  RowItems items;
};
cudaError_t launch_one_hot(const OneHotArguments& arguments, cudaStream_t stream);

// How indices address slices of a tensor: slice `i` is at plan.strides[0] of i, plus strides[d] times index d of it;
// its `depth` indices begin at plan.strides[1] of i. In slices, so for `width` elements each.
struct SliceAddress {
  const void* indices = nullptr;
  DType index_type = DType::invalid;
  IndexPlan<2> plan;
  int depth = 1;
  std::int64_t sizes[kMaxPlanDims] = {};
  std::int64_t strides[kMaxPlanDims] = {};
  bool from_end = true;
  std::int64_t none = 0;  // if below 0: indices from there to -1 are none, and no fault
  CudaFaultSite fault;    // for an invalid index
};

// Slice i of the result is the slice at the address of i, zeros if an index is invalid.
struct GatherSlicesArguments {
  SliceAddress address;
  const void* data = nullptr;
  void* out = nullptr;
  int piece_bytes = 1;  // 1, 2, 4, 8 or 16
  RowItems items;       // pieces of the result
};
cudaError_t launch_gather_slices(const GatherSlicesArguments& arguments, cudaStream_t stream);

// Sorts positions by the slice that they address, and within a slice by position.
struct SortSlicesArguments {
  SliceAddress address;
  std::int64_t count = 0;            // 1 to 2^31 - 1
  std::int64_t slices = 0;           // of the tensor; fewer than 2^32 - 1
  std::uint32_t* keys[2] = {};       // `count` elements each; [1] is the result
  std::uint32_t* positions[2] = {};  // the same
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};
// With a null `scratch`: sets scratch_bytes to its required size.
cudaError_t measure_sort_slices(SortSlicesArguments& arguments);
// Positions with an invalid index get the key `slices`.
cudaError_t launch_sort_slices(const SortSlicesArguments& arguments, cudaStream_t stream);

// Updates of slices, sorted.
struct ScatterArguments {
  const std::uint32_t* keys = nullptr;
  const std::uint32_t* positions = nullptr;
  const void* updates = nullptr;
  void* data = nullptr;
  std::int64_t count = 0;
  std::int64_t slices = 0;
  const CudaFault* guard = nullptr;  // if not null, nothing changes after a fault
  bool rounds_once = false;          // of narrow dtypes: combined in float
  bool mean = false;                 // divides by the number of updates; with rounds_once
  bool from_limit = false;           // of extrema: what the slice held does not count
};
// Combines a slice with its updates in the order of their positions, rounding after each unless `rounds_once`. `items`:
// elements.
cudaError_t launch_combine_slices(DType dtype, ScatterCombine combine, const ScatterArguments& arguments,
                                  const RowItems& items, cudaStream_t stream);
// An index below the one before it is a fault: its value, element, and the index before.
cudaError_t launch_check_ascending(const void* indices, DType index_type, std::int64_t count, CudaFaultSite fault,
                                   cudaStream_t stream);
// Replaces a slice by the last of its updates. `items`: pieces of 1, 2, 4, 8 or 16 bytes.
cudaError_t launch_replace_slices(int piece_bytes, const ScatterArguments& arguments, const RowItems& items,
                                  cudaStream_t stream);

}  // namespace troupe
