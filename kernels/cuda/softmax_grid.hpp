// How threads are given rows of a softmax: a function of dtype and width alone.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

struct SoftmaxGrid {
  int vector = 1;   // elements side by side that a thread loads at once
  int across = 1;   // threads of a row: a power of two, up to 32; or a block of 256 or 1024
  int vectors = 0;  // loads that a thread keeps: 1, 4, 8; 0: too many, the row is read twice
};
SoftmaxGrid softmax_grid(DType dtype, std::int64_t width);

}  // namespace troupe
