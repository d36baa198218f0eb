// The CPU's half of kernels/common/movement.hpp.
#include <algorithm>
#include <cstring>
#include <string>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kCopyGrain = 32768;

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

// Copies elements [begin, end) of the index space.
template <class E>
void copy_part(const CopyLoops& loops, const E* source, E* target, std::int64_t begin, std::int64_t end) {
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
    // Next row: back to column 0, then count up like an odometer.
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
void copy_all(Parallelism& parallelism, const CopyLoops& loops, const std::byte* source, std::int64_t source_offset,
              std::byte* target, std::int64_t target_offset) {
  const E* from = reinterpret_cast<const E*>(source) + source_offset;
  E* to = reinterpret_cast<E*>(target) + target_offset;
  parallelism.parallel_for(loops.total, kCopyGrain,
                           [&](std::int64_t begin, std::int64_t end) { copy_part(loops, from, to, begin, end); });
}

}  // namespace

void strided_copy(Device& device, const Tensor& source, std::int64_t source_offset, Tensor& target,
                  std::int64_t target_offset, std::span<const CopyDim> dims) {
  const CopyLoops loops = merge_loops(dims);
  if (loops.total == 0) return;
  const auto copy = [&]<class E>() {
    copy_all<E>(device.parallelism(), loops, source.raw(), source_offset, target.mutable_raw(), target_offset);
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
      fail(Code::internal, "cannot copy elements of dtype {}", name(source.dtype()));
  }
}

Tensor make_zeros(Device& device, DType dtype, const Shape& shape) {
  Tensor out = device.allocator().tensor(dtype, shape);
  if (dtype != DType::string && out.num_bytes() > 0) std::memset(out.mutable_raw(), 0, out.num_bytes());
  return out;
}

}  // namespace troupe
