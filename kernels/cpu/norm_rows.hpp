// Shared by normalisation kernels: a tensor as rows along its last dimension, and rows in the type used for arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {

struct NormRows {
  std::int64_t count = 0;
  std::int64_t width = 0;

  // Rows accumulated together: few enough for short sums, enough that little is kept per block.
  std::int64_t block() const {
    return std::clamp<std::int64_t>((std::int64_t{1} << 15) / std::max<std::int64_t>(1, width), 64, 512);
  }
  std::int64_t blocks() const { return (count + block() - 1) / block(); }
};

inline NormRows norm_rows(std::string_view what, const Shape& shape) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  return {shape[-1] == 0 ? 0 : shape.num_elements() / shape[-1], shape[-1]};
}

// Returns a row as U: the row itself, or a copy in `room`.
template <class T>
const Compute<T>* widened(const T* row, std::int64_t width, Compute<T>* room) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return row;
  } else {
    widen(row, room, width);
    return room;
  }
}

template <class T>
void narrowed(const Compute<T>* row, std::int64_t width, T* to) {
  if constexpr (std::is_same_v<T, Compute<T>>)
    std::copy_n(row, width, to);
  else
    narrow(row, to, width);
}

// Rounds values to T and back.
template <class T>
void round_to(float* values, std::int64_t count) {
  constexpr std::int64_t kBlock = 256;
  T rounded[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    narrow(values + begin, rounded, n);
    widen(rounded, values + begin, n);
  }
}

template <class U>
void add_to(const U* __restrict values, std::int64_t count, U* __restrict sums) {
  for (std::int64_t j = 0; j < count; ++j) sums[j] += values[j];
}

// Two sums over the rows for each column: [first, second][column]. add(i, room, sums) adds row i to sums of U, [first,
// second][column]; `room` is its scratch space, `rooms` rows long. Blocks are summed in U, and added in order.
template <class U, class Add>
class ColumnSums {
 public:
  ColumnSums(Parallelism& parallelism, NormRows rows, std::int64_t rooms, Add add)
      : size_(2 * rows.width), sums_(std::max<std::int64_t>(1, rows.blocks()) * std::max<std::int64_t>(1, size_)) {
    std::fill_n(sums_.data(), size_, 0.0);
    double* const all = sums_.data();
    parallelism.parallel_for(rows.count, rows.block(), [=, size = size_](std::int64_t begin, std::int64_t end) {
      const ScratchArray<U> room(rooms * rows.width + size);
      U* const sums = room.data() + rooms * rows.width;
      std::fill_n(sums, size, U{0});
      for (std::int64_t i = begin; i < end; ++i) add(i, room.data(), sums);
      double* const out = all + begin / rows.block() * size;
      for (std::int64_t j = 0; j < size; ++j) out[j] = static_cast<double>(sums[j]);
    });
    for (std::int64_t b = 1; b < rows.blocks(); ++b) add_to(all + b * size_, size_, all);
  }
  double first(std::int64_t column) const { return sums_[column]; }
  double second(std::int64_t column) const { return sums_[size_ / 2 + column]; }

 private:
  std::int64_t size_;
  ScratchArray<double> sums_;
};

}  // namespace troupe
