#include "kernels/cpu/movement.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "messages/error.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kCopyGrain = 32768;

// The loops of a copy without those of one element, neighbours merged where both sides are dense across them.
struct Loops {
  std::array<CopyDim, kMaxCopyDims> dims;
  std::size_t rank = 0;
  std::int64_t total = 1;
};

Loops merge(std::span<const CopyDim> dims) {
  Loops loops;
  for (const CopyDim& d : dims) {
    loops.total *= d.size;
    if (d.size == 1) continue;
    if (loops.rank > 0) {
      CopyDim& outer = loops.dims[loops.rank - 1];
      if (outer.source_stride == d.source_stride * d.size &&
          outer.target_stride == d.target_stride * d.size) {
        outer = {outer.size * d.size, d.source_stride, d.target_stride};
        continue;
      }
    }
    loops.dims[loops.rank++] = d;
  }
  if (loops.rank == 0) loops.dims[loops.rank++] = {1, 1, 1};
  return loops;
}

template <class E>
void copy_stretch(const E* source, std::int64_t source_stride, E* target, std::int64_t target_stride,
                  std::int64_t count) {
  if (target_stride == 1 && source_stride == 1) {
    std::copy_n(source, count, target);
  } else if (target_stride == 1 && source_stride == 0) {
    std::fill_n(target, count, *source);
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i * target_stride] = source[i * source_stride];
  }
}

// Elements [begin, end) of the index space.
template <class E>
void copy_part(const Loops& loops, const E* source, E* target, std::int64_t begin, std::int64_t end) {
  std::array<std::int64_t, kMaxCopyDims> index{};
  std::int64_t rest = begin;
  for (std::size_t d = loops.rank; d-- > 0; rest /= loops.dims[d].size) {
    index[d] = rest % loops.dims[d].size;
    source += index[d] * loops.dims[d].source_stride;
    target += index[d] * loops.dims[d].target_stride;
  }
  const CopyDim& inner = loops.dims[loops.rank - 1];
  std::int64_t column = index[loops.rank - 1];
  while (begin < end) {
    const std::int64_t count = std::min(inner.size - column, end - begin);
    copy_stretch(source, inner.source_stride, target, inner.target_stride, count);
    begin += count;
    // On to the next row: back to column 0, then count up like an odometer.
    source -= column * inner.source_stride;
    target -= column * inner.target_stride;
    column = 0;
    for (std::size_t d = loops.rank - 1; d-- > 0;) {
      const CopyDim& dim = loops.dims[d];
      source += dim.source_stride;
      target += dim.target_stride;
      if (++index[d] < dim.size) break;
      index[d] = 0;
      source -= dim.size * dim.source_stride;
      target -= dim.size * dim.target_stride;
    }
  }
}

template <class E>
void copy_all(Parallelism& parallelism, const Loops& loops, const std::byte* source,
              std::int64_t source_offset, std::byte* target, std::int64_t target_offset) {
  const E* from = reinterpret_cast<const E*>(source) + source_offset;
  E* to = reinterpret_cast<E*>(target) + target_offset;
  parallelism.parallel_for(loops.total, kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    copy_part(loops, from, to, begin, end);
  });
}

}  // namespace

void strided_copy(Parallelism& parallelism, const Tensor& source, std::int64_t source_offset, Tensor& target,
                  std::int64_t target_offset, std::span<const CopyDim> dims) {
  const Loops loops = merge(dims);
  if (loops.total == 0) return;
  const auto copy = [&]<class E>() {
    copy_all<E>(parallelism, loops, source.raw(), source_offset, target.mutable_raw(), target_offset);
  };
  if (source.dtype() == DType::string) return copy.operator()<std::string>();
  switch (size_of(source.dtype())) {
    case 1:
      return copy.operator()<std::uint8_t>();
    case 2:
      return copy.operator()<std::uint16_t>();
    case 4:
      return copy.operator()<std::uint32_t>();
    case 8:
      return copy.operator()<std::uint64_t>();
    default:
      fail(Code::internal, "elements of {} cannot be copied", name(source.dtype()));
  }
}

std::array<std::int64_t, kMaxRank> dense_strides(const Shape& shape) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = step;
    step *= std::max<std::int64_t>(shape.dim(d),
                                   1);  // no overflow where another dimension is 0: nothing is addressed
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
    dims[static_cast<std::size_t>(d)] = {shape.dim(d),
                                         repeated ? 0 : from[static_cast<std::size_t>(d - added)],
                                         to[static_cast<std::size_t>(d)]};
  }
  strided_copy(device.parallelism(), x, 0, out, 0, {dims.data(), static_cast<std::size_t>(shape.rank())});
  return out;
}

Tensor make_zeros(Device& device, DType dtype, const Shape& shape) {
  Tensor out = device.allocator().tensor(dtype, shape);
  if (dtype != DType::string && out.num_bytes() > 0) std::memset(out.mutable_raw(), 0, out.num_bytes());
  return out;
}

int checked_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) invalid_argument("axis {} of a tensor with {} dimensions", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace troupe
