// Draws rows of an initial value one by one, with the bits that they have in the whole: element i of a random tensor
// depends on its stream and i alone (kernels/cpu/random.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

class RowDraws {
 public:
  // Whether `value` is a Fill with a constant, RandomUniform, RandomNormal or TruncatedNormal of known shape, [rows,
  // ...].
  static bool can_draw(const Graph& graph, Endpoint value);
  // `value`: an initial value of `graph`; `seed`: of the session that would compute it whole. Throws invalid_argument
  // unless can_draw().
  RowDraws(const Graph& graph, Endpoint value, std::uint64_t seed);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }  // of the whole
  std::size_t row_bytes() const { return row_bytes_; }
  // Writes row `row`.
  void draw(std::int64_t row, std::byte* out) const { draw_(row, out); }
  // `count` rows from `first` on, each `stride` after the one before: [count, ...].
  Tensor rows(Parallelism& parallelism, std::int64_t first, std::int64_t stride, std::int64_t count) const;

 private:
  DType dtype_;
  Shape shape_;
  std::size_t row_bytes_;
  std::function<void(std::int64_t row, std::byte* out)> draw_;
};

}  // namespace troupe
