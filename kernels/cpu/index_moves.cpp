#include "troupe/kernels/cpu/index_moves.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/ivdep.hpp>

namespace troupe {
namespace {

// Calls move(target, source) with compile-time sizes where pieces are small.
template <class Target, class Source>
void move_sized(std::int64_t count, std::int64_t bytes, Target target, Source source) {
  const auto all = [&]<std::size_t size>() {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(target(i, size), source(i, size), size);
  };
  switch (bytes) {
    case 1:
      return all.template operator()<1>();
    case 2:
      return all.template operator()<2>();
    case 4:
      return all.template operator()<4>();
    case 8:
      return all.template operator()<8>();
    case 16:
      return all.template operator()<16>();
    case 32:
      return all.template operator()<32>();
    default:
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(target(i, bytes), source(i, bytes), static_cast<std::size_t>(bytes));
  }
}

void copy_text(const std::byte* from, std::byte* to, std::int64_t bytes) {
  std::copy_n(reinterpret_cast<const std::string*>(from), bytes / static_cast<std::int64_t>(sizeof(std::string)),
              reinterpret_cast<std::string*>(to));
}

Tensor moved_axis(Device& device, const Tensor& x, int from, int to) {
  if (from == to) return x;
  std::vector<std::int64_t> perm;
  for (int d = 0; d < x.shape().rank(); ++d)
    if (d != from) perm.push_back(d);
  perm.insert(perm.begin() + to, from);
  return transpose(device, x, perm);
}

}  // namespace

void throw_bad_index(std::string_view op, std::int64_t index, std::int64_t element, std::int64_t size, bool from_end) {
  if (from_end) invalid_argument("{}: index {} (element {}) is not in [-{}, {})", op, index, element, size, size);
  invalid_argument("{}: index {} (element {}) is not in [0, {})", op, index, element, size);
}

// Elements of the size of T, which is not T's alignment: with vector gathers, where the processor has them, many loads
// are under way at once.
template <class T, class Offset>
void gather(const std::byte* from, const Offset* offsets, std::int64_t count, std::byte* to) {
  using Bytes [[gnu::may_alias, gnu::aligned(1)]] = T;
  auto* target = reinterpret_cast<Bytes*>(to);
  TROUPE_IVDEP
  for (std::int64_t i = 0; i < count; ++i) target[i] = *reinterpret_cast<const Bytes*>(from + offsets[i]);
}

template <class Offset>
void move_from(const std::byte* from, const Offset* offsets, std::int64_t count, Piece piece, std::byte* to) {
  if (piece.text) {
    for (std::int64_t i = 0; i < count; ++i) copy_text(from + offsets[i], to + i * piece.bytes, piece.bytes);
    return;
  }
  if (piece.bytes == 4) return gather<std::uint32_t>(from, offsets, count, to);
  if (piece.bytes == 8) return gather<std::uint64_t>(from, offsets, count, to);
  move_sized(
      count, piece.bytes, [=](std::int64_t i, auto size) { return to + i * static_cast<std::int64_t>(size); },
      [=](std::int64_t i, auto) { return from + offsets[i]; });
}

template void move_from(const std::byte*, const std::int32_t*, std::int64_t, Piece, std::byte*);
template void move_from(const std::byte*, const std::int64_t*, std::int64_t, Piece, std::byte*);

void move_to(const std::byte* from, const std::int64_t* offsets, std::int64_t count, Piece piece, std::byte* to) {
  if (piece.text) {
    for (std::int64_t i = 0; i < count; ++i) copy_text(from + i * piece.bytes, to + offsets[i], piece.bytes);
    return;
  }
  move_sized(
      count, piece.bytes, [=](std::int64_t i, auto) { return to + offsets[i]; },
      [=](std::int64_t i, auto size) { return from + i * static_cast<std::int64_t>(size); });
}

Tensor with_axis_last(Device& device, const Tensor& x, int axis) {
  return moved_axis(device, x, axis, x.shape().rank() - 1);
}
Tensor with_last_at(Device& device, const Tensor& x, int axis) {
  return moved_axis(device, x, x.shape().rank() - 1, axis);
}

AxisView view_axis(const Shape& shape, int axis) {
  return {product(shape, 0, axis), shape.dim(axis), product(shape, axis + 1, shape.rank())};
}

}  // namespace troupe
