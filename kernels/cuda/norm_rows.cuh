// Kernels in which threads share a row of elements: of a layer, or of a group.
#pragma once

#include <troupe/kernels/cuda/norm_columns.cuh>
#include <troupe/kernels/cuda/softmax_rows.cuh>

namespace troupe::device {

// Threads per row: part of a warp, or a block.
template <int kVector>
inline int row_threads(std::int64_t width) {
  const std::int64_t loads = (width + kVector - 1) / kVector;
  if (loads > 256) return kNormThreads;
  int across = 1;
  while (across < 32 && across < loads) across *= 2;
  return across;
}

// Calls fn(column, values) for each part of a row that belongs to this thread.
template <int kVector, class T, class Fn>
__device__ inline void along_row(const T* row, std::int64_t width, int lane, int across, bool vectors, Fn fn) {
  for (std::int64_t column = std::int64_t{lane} * kVector; column < width; column += std::int64_t{across} * kVector) {
    T values[kVector];
    load<kVector>(row + column, vectors, values);
    fn(column, values);
  }
}

}  // namespace troupe::device
