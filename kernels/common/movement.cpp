#include "troupe/kernels/common/movement.hpp"

#include <algorithm>

#include <troupe/messages/error.hpp>

namespace troupe {

CopyLoops merge_loops(std::span<const CopyDim> dims) {
  CopyLoops loops;
  for (const CopyDim& d : dims) {
    loops.total *= d.size;
    if (d.size == 1) continue;
    if (loops.rank > 0) {
      CopyDim& outer = loops.dims[loops.rank - 1];
      if (outer.source_stride == d.source_stride * d.size && outer.target_stride == d.target_stride * d.size) {
        outer = {outer.size * d.size, d.source_stride, d.target_stride};
        continue;
      }
    }
    loops.dims[loops.rank++] = d;
  }
  if (loops.rank == 0) loops.dims[loops.rank++] = {1, 1, 1};
  return loops;
}

std::array<std::int64_t, kMaxRank> dense_strides(const Shape& shape) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = step;
    step *= std::max<std::int64_t>(shape.dim(d),
                                   1);  // no overflow if another dimension is 0: nothing is addressed
    if (shape.dim(d) == 0) break;
  }
  return strides;
}

Tensor broadcast_to(Device& device, const Tensor& x, const Shape& shape) {
  const int added = shape.rank() - x.shape().rank();
  if (added < 0 || broadcast(x.shape(), shape) != shape)
    invalid_argument("cannot broadcast {} to {}", x.shape().to_string(), shape.to_string());
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  const auto from = dense_strides(x.shape()), to = dense_strides(shape);
  std::array<CopyDim, kMaxRank> dims;
  for (int d = 0; d < shape.rank(); ++d) {
    const bool repeated = d < added || x.shape().dim(d - added) == 1;
    dims[static_cast<std::size_t>(d)] = {shape.dim(d), repeated ? 0 : from[static_cast<std::size_t>(d - added)],
                                         to[static_cast<std::size_t>(d)]};
  }
  strided_copy(device, x, 0, out, 0, {dims.data(), static_cast<std::size_t>(shape.rank())});
  return out;
}

int checked_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    invalid_argument("axis {} is out of range for a tensor with {} dimensions", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace troupe
