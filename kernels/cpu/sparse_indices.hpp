// The coordinates of a sparse tensor as kernels read them: i64 [n,rank], and the shape of the whole, i64 [rank].
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

class SparseIndices {
 public:
  // Keeps a reference to `indices`. Throws invalid_argument, naming the op, for tensors that do not fit together.
  SparseIndices(std::string_view op, const Tensor& indices, const Tensor& dense_shape);

  std::int64_t count() const { return count_; }
  int rank() const { return shape_.rank(); }
  const Shape& shape() const { return shape_; }
  std::span<const std::int64_t> at(std::int64_t element) const {
    return {places_ + element * rank(), static_cast<std::size_t>(rank())};
  }

  bool is_inside(std::int64_t element) const;

  // The place of each element in row-major order. Throws invalid_argument for one outside of the shape, and for shapes
  // of 2^63 elements and more.
  std::vector<std::int64_t> places() const;
  // The same in a tensor that has these dimensions alone.
  std::vector<std::int64_t> places(std::span<const int> axes) const;
  // Throws invalid_argument unless the places of all elements ascend, each once.
  void check_order(std::span<const std::int64_t> places) const;
  // Of an element outside of the shape.
  [[noreturn]] void throw_outside(std::int64_t element) const;

 private:
  std::string text(std::int64_t element) const;

  const std::string_view op_;
  const std::int64_t* places_;
  std::int64_t count_;
  Shape shape_;
};

// A shape in an i64 vector. Throws invalid_argument, beginning with `what`, for any other, and for negative dimensions.
Shape shape_in(std::string_view what, const Tensor& dims);

}  // namespace troupe
