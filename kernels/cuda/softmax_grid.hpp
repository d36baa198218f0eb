// Assignment of threads to rows of a softmax: depends only on dtype and width. f16 and bf16 have the grid of f32.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

struct SoftmaxGrid {
  int vector = 1;   // adjacent elements per load
  int across = 1;   // threads per row: a power of two up to 32, or a block of 256 or 1024
  int vectors = 0;  // loads kept per thread: 1, 4, 8; 0: too many, the row is read twice
};
SoftmaxGrid softmax_grid(DType dtype, std::int64_t width);

}  // namespace troupe
