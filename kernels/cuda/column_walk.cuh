// Kernels over [rows, width] in which each thread keeps per-column state and walks down the rows.
#pragma once

#include <algorithm>

#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe::device {

inline constexpr int kWalkThreads = 256;

struct ColumnWalk {
  int across;  // threads per row
  dim3 grid;
};
template <int kVector>
ColumnWalk column_walk(std::int64_t rows, std::int64_t width, std::int64_t rows_of_thread) {
  ColumnWalk walk{1, {}};
  while (walk.across < kWalkThreads && walk.across * kVector < width) walk.across *= 2;
  const std::int64_t tiles = (width + walk.across * kVector - 1) / (walk.across * kVector);
  walk.grid = dim3(blocks_for(rows, kWalkThreads / walk.across * rows_of_thread),
                   static_cast<unsigned>(std::min<std::int64_t>(tiles, 65535)));
  return walk;
}

// Calls begin(column) for each group of columns of a thread, then the function it returns once per row, with the
// elements of all inputs; that function overwrites the first input's elements with those of `out`. `out` may be an
// input: a row is read before it is written. Several rows are read before the first is written, to keep enough loads in
// flight; the compiler cannot reorder these itself because `out` may alias an input.
template <int kVector, int kInputs, class T, class Begin>
__device__ inline void walk_columns(const T* const (&inputs)[kInputs], T* out, std::int64_t rows, std::int64_t width,
                                    int across, bool vectors, Begin begin) {
  constexpr int kRows = 4;
  const int thread = static_cast<int>(threadIdx.x), down = kWalkThreads / across;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(down);
  for (std::int64_t tile = blockIdx.y; tile * across * kVector < width; tile += gridDim.y) {
    const std::int64_t column = (tile * across + thread % across) * kVector;
    if (column >= width) continue;
    const auto work = begin(column);
    for (std::int64_t row = blockIdx.x * static_cast<std::int64_t>(down) + thread / across; row < rows;
         row += kRows * step) {
      T values[kRows][kInputs][kVector];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (row + r * step < rows) {
#pragma unroll
          for (int k = 0; k < kInputs; ++k)
            load<kVector>(inputs[k] + (row + r * step) * width + column, vectors, values[r][k]);
        }
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (row + r * step < rows) {
          work(values[r]);
          store<kVector>(out + (row + r * step) * width + column, vectors, values[r][0]);
        }
    }
  }
}

}  // namespace troupe::device
