// Between the host and the device part of ops on rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Items: the pieces of all rows of a result, so many to each row.
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

// Row indices[i] of the table becomes row i of the result; zeros where there is no such row.
struct GatherArguments {
  const void* table = nullptr;
  const void* indices = nullptr;
  DType index_type = DType::invalid;
  void* out = nullptr;
  std::int64_t rows = 0;  // of the table
  int piece_bytes = 1;    // 1, 2, 4, 8 or 16
  RowItems items;         // pieces of the result
  CudaFaultSite fault;    // for an index that is no row
};
cudaError_t launch_gather(const GatherArguments& arguments, cudaStream_t stream);

// out[i * depth + indices[i]] = on, all others off; elements are the first bytes of `on` and `off`.
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

// Sorts positions by the row that they are added to, those of one row by position.
struct SortRowsArguments {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0;            // 1 to 2^31 - 1
  std::int64_t rows = 0;             // fewer than 2^32 - 1
  std::uint32_t* keys[2] = {};       // of `count` each; [1] is the result
  std::uint32_t* positions[2] = {};  // as well
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
  CudaFaultSite fault;
};
// Without `scratch`: how many bytes it must have, in scratch_bytes.
cudaError_t measure_sort_rows(SortRowsArguments& arguments);
// Positions whose index is no row get the key `rows`.
cudaError_t launch_sort_rows(const SortRowsArguments& arguments, cudaStream_t stream);

// Adds the values of each row in the order of their positions, rounding after each. `out` is zeros.
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
