// The CPU's half of kernels/common/movement.hpp.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/transpose_tile.hpp>
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

// Bytes per side of a tile that stays in the cache.
inline constexpr std::int64_t kTileBytes = 128;

// A transpose of rows x columns: rows are contiguous in the source, columns in the target.
struct Transposed {
  std::int64_t rows, columns;
  std::int64_t source_column, target_row;  // strides
  CopyLoops outer;
};

template <class E>
void transpose_all(Parallelism& parallelism, const Transposed& t, const E* source, E* target) {
  constexpr std::int64_t kSide = std::max<std::int64_t>(kTileBytes / static_cast<std::int64_t>(sizeof(E)), 16);
  const std::int64_t row_tiles = (t.rows - 1) / kSide + 1, column_tiles = (t.columns - 1) / kSide + 1;
  const std::int64_t grain =
      std::max<std::int64_t>(kCopyGrain / (std::min(t.rows, kSide) * std::min(t.columns, kSide)), 1);
  parallelism.parallel_for(t.outer.total * row_tiles * column_tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      // Neighbours along columns follow each other: they continue the same rows of the target.
      const std::int64_t column = tile % column_tiles * kSide, row = tile / column_tiles % row_tiles * kSide;
      std::int64_t from = column * t.source_column + row, to = row * t.target_row + column;
      std::int64_t rest = tile / column_tiles / row_tiles;
      for (std::size_t d = t.outer.rank; d-- > 0; rest /= t.outer.dims[d].size) {
        from += rest % t.outer.dims[d].size * t.outer.dims[d].source_stride;
        to += rest % t.outer.dims[d].size * t.outer.dims[d].target_stride;
      }
      transpose_tile(std::min(kSide, t.rows - row), std::min(kSide, t.columns - column), source + from, t.source_column,
                     target + to, t.target_row);
    }
  });
}

// The transpose that the loops contain, if there is one worth tiles: of loops where the source is contiguous and where
// the target is.
std::optional<Transposed> find_transpose(const CopyLoops& loops) {
  constexpr std::int64_t kLeast = 8;
  std::size_t row = loops.rank, column = loops.rank;
  for (std::size_t d = 0; d < loops.rank; ++d) {
    if (loops.dims[d].size < kLeast) continue;
    if (loops.dims[d].source_stride == 1 && loops.dims[d].target_stride != 1) row = d;
    if (loops.dims[d].target_stride == 1 && loops.dims[d].source_stride > 1) column = d;
  }
  if (row == loops.rank || column == loops.rank) return std::nullopt;
  Transposed t{.rows = loops.dims[row].size,
               .columns = loops.dims[column].size,
               .source_column = loops.dims[column].source_stride,
               .target_row = loops.dims[row].target_stride,
               .outer = {}};
  for (std::size_t d = 0; d < loops.rank; ++d) {
    if (d == row || d == column) continue;
    t.outer.total *= loops.dims[d].size;
    t.outer.dims[t.outer.rank++] = loops.dims[d];
  }
  return t;
}

// Makes a short innermost loop an outer one, if there is a longer one with contiguous elements.
void lengthen_inner(CopyLoops& loops) {
  constexpr std::int64_t kShort = 8;
  if (loops.dims[loops.rank - 1].size >= kShort) return;
  const auto end = loops.dims.begin() + static_cast<std::ptrdiff_t>(loops.rank);
  const auto longer = std::find_if(loops.dims.begin(), end, [](const CopyDim& d) {
    return d.size >= 2 * kShort && (d.source_stride == 1 || d.target_stride == 1);
  });
  if (longer != end) std::rotate(longer, longer + 1, end);
}

template <class E>
void copy_all(Parallelism& parallelism, const CopyLoops& loops, const std::byte* source, std::int64_t source_offset,
              std::byte* target, std::int64_t target_offset) {
  const E* from = reinterpret_cast<const E*>(source) + source_offset;
  E* to = reinterpret_cast<E*>(target) + target_offset;
  if constexpr (!std::is_same_v<E, std::string>)
    if (const auto transposed = find_transpose(loops)) return transpose_all(parallelism, *transposed, from, to);
  parallelism.parallel_for(loops.total, kCopyGrain,
                           [&](std::int64_t begin, std::int64_t end) { copy_part(loops, from, to, begin, end); });
}

}  // namespace

void strided_copy(Device& device, const Tensor& source, std::int64_t source_offset, Tensor& target,
                  std::int64_t target_offset, std::span<const CopyDim> dims) {
  CopyLoops loops = merge_loops(dims);
  if (loops.total == 0) return;
  const CopyDim& inner = loops.dims[loops.rank - 1];
  const bool contiguous = loops.rank == 1 && inner.source_stride == 1 && inner.target_stride == 1;
  if (contiguous && loops.total <= kCopyGrain && source.dtype() != DType::string) {
    const std::size_t size = size_of(source.dtype());
    std::memcpy(target.mutable_raw() + static_cast<std::size_t>(target_offset) * size,
                source.raw() + static_cast<std::size_t>(source_offset) * size,
                static_cast<std::size_t>(loops.total) * size);
    return;
  }
  lengthen_inner(loops);
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
