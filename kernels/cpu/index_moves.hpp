// What kernels that address elements by index share: indices are checked and turned into offsets a block at a time,
// then pieces of some bytes move, whatever their dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/gather_geometry.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

inline constexpr std::int64_t kIndexBlock = 256;

// Throws invalid_argument: `index`, element `element` of the indices, is not in [0, size), or from -size.
[[noreturn]] void throw_bad_index(std::string_view op, std::int64_t index, std::int64_t element, std::int64_t size,
                                  bool from_end = true);

// Adds stride * indices[i * step] to offsets[i], i < count. Negative indices count from the end if `from_end`. Returns
// whether all are inside; offsets of others are meaningless.
template <class I>
bool add_offsets(const I* indices, std::int64_t step, std::int64_t count, std::int64_t size, std::int64_t stride,
                 std::int64_t* offsets, bool from_end = true) {
  const std::int64_t wrap = from_end ? size : 0;
  std::uint64_t outside = 0;
  const auto add = [&](std::int64_t i, std::int64_t index) {
    index += index < 0 ? wrap : 0;
    outside |= static_cast<std::uint64_t>(index >= size) | static_cast<std::uint64_t>(index < 0);
    offsets[i] += index * stride;
  };
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) add(i, indices[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) add(i, indices[i * step]);
  }
  return outside == 0;
}

// Finds the first of these indices that is outside and throws for it. `first` is the number of indices[0] in the
// tensor.
template <class I>
[[noreturn]] void throw_first_bad(std::string_view op, const I* indices, std::int64_t step, std::int64_t count,
                                  std::int64_t size, std::int64_t first, bool from_end = true) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[i * step];
    if (index >= size || index < (from_end ? -size : 0)) throw_bad_index(op, index, first + i * step, size, from_end);
  }
  fail(Code::internal, "{}: an index is out of range", op);
}

// Bytes that move together: some elements of one tensor. Offsets are in bytes.
struct Piece {
  std::int64_t bytes = 0;
  bool text = false;  // std::string objects
};
inline Piece piece_of(DType dtype, std::int64_t elements) {
  return {elements * static_cast<std::int64_t>(size_of(dtype)), dtype == DType::string};
}

// Piece i of `to` = the piece at from + offsets[i], i < count. Offsets have 32 or 64 bits.
template <class Offset>
void move_from(const std::byte* from, const Offset* offsets, std::int64_t count, Piece piece, std::byte* to);
// The piece at to + offsets[i] = piece i of `from`, in order.
void move_to(const std::byte* from, const std::int64_t* offsets, std::int64_t count, Piece piece, std::byte* to);

// x with dimension `axis` moved to the end, and back.
Tensor with_axis_last(Device& device, const Tensor& x, int axis);
Tensor with_last_at(Device& device, const Tensor& x, int axis);

// Rows of `width` elements in a part of parallel work.
inline std::int64_t rows_per_part(std::int64_t width) {
  constexpr std::int64_t kElements = 16384;
  return width < kElements ? kElements / (width > 0 ? width : 1) : 1;
}

// Three factors of a tensor's size: the dimensions before an axis, the axis, and those after it.
struct AxisView {
  std::int64_t outer = 1, size = 1, inner = 1;
};
AxisView view_axis(const Shape& shape, int axis);

}  // namespace troupe
