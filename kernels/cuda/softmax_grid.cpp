#include "troupe/kernels/cuda/softmax_grid.hpp"

namespace troupe {

SoftmaxGrid softmax_grid(DType dtype, std::int64_t width) {
  SoftmaxGrid grid;
  const bool wide = dtype == DType::f64;
  if (!wide && width % 4 == 0) grid.vector = 4;
  const std::int64_t loads = width / grid.vector;
  if (loads <= 32) {
    grid.vectors = 1;
    while (grid.across < loads) grid.across *= 2;
    return grid;
  }
  const std::int64_t most = wide ? 1024 : 4096;  // in registers; exponentials of f64 need many
  grid.across = loads <= 256 ? 32 : loads <= 1024 ? 256 : 1024;
  grid.vectors = loads <= 128 ? 4 : loads <= 256 ? 8 : loads <= most ? 4 : 0;
  return grid;
}

}  // namespace troupe
