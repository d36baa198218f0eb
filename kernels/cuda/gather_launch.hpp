// Ops on rows: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
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

// Sorts positions by target row, and within a row by position.
struct SortRowsArguments {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0;            // 1 to 2^31 - 1
  std::int64_t rows = 0;             // fewer than 2^32 - 1
  std::uint32_t* keys[2] = {};       // `count` elements each; [1] is the result
  std::uint32_t* positions[2] = {};  // the same
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
  CudaFaultSite fault;
};
// With a null `scratch`: sets scratch_bytes to its required size.
cudaError_t measure_sort_rows(SortRowsArguments& arguments);
// Positions with an invalid index get the key `rows`.
cudaError_t launch_sort_rows(const SortRowsArguments& arguments, cudaStream_t stream);

// Adds the values of each row in the order of their positions, rounding after each. `out` starts as zeros.
struct AddRowsArguments {
  DType dtype = DType::invalid;
  const std::uint32_t* keys = nullptr;
  const std::uint32_t* positions = nullptr;
  const void* values = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  RowItems items;  // elements of the values
};
cudaError_t launch_add_rows(const AddRowsArguments& arguments, cudaStream_t stream);

}  // namespace troupe
