// Triangles, and sums over copies: interface between host and device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// x [matrices, rows, columns] with zeros below diagonal k (upper), or above it; elements of 1, 2, 4 or 8 bytes.
struct TriluLaunch {
  const void* x = nullptr;
  void* out = nullptr;
  std::size_t element_bytes = 1;
  std::int64_t count = 0;  // elements
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t k = 0;  // from -rows to columns
  bool upper = false;
};
cudaError_t launch_trilu(const TriluLaunch& l, cudaStream_t stream);

// out [outer, size, inner]: out[o, i, :] = the sum of dy[o, places[p], :], p from starts[i] to starts[i + 1], in order,
// in float if dy is narrower.
struct FoldLaunch {
  DType dtype = DType::invalid;  // floating
  const void* dy = nullptr;      // [outer, dy_size, inner]
  void* out = nullptr;
  const std::int64_t* starts = nullptr;
  const std::int64_t* places = nullptr;
  std::int64_t count = 0;  // elements of out
  std::int64_t size = 1;
  std::int64_t dy_size = 0;
  std::int64_t inner = 1;
};
cudaError_t launch_fold(const FoldLaunch& l, cudaStream_t stream);

}  // namespace troupe
