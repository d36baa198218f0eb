// Tensor: a value handle of (dtype, shape, reference-counted buffer). Copying one copies a reference; slices and
// reshapes share the buffer. Elements are in row-major order without gaps.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <troupe/messages/buffer.hpp>
#include <troupe/messages/dtype.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

class Tensor {
 public:
  Tensor() = default;  // no tensor: valid() is false
  // Allocates host memory, not initialised (strings are empty). Throws invalid_argument or resource_exhausted.
  Tensor(DType dtype, const Shape& shape);
  // A view of `buffer`. Throws invalid_argument if it is too small.
  Tensor(DType dtype, const Shape& shape, BufferRef buffer, std::size_t byte_offset = 0);

  static Tensor zeros(DType dtype, const Shape& shape);
  static Tensor list(BufferRef buffer);  // for make_list() (tensor_list.hpp)
  template <class T>
  static Tensor scalar(const T& value) {
    Tensor t(dtype_of<T>, Shape{});
    *t.mutable_data<T>() = value;
    return t;
  }
  // Throws invalid_argument if the number of values does not match the shape.
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor vector(std::initializer_list<T> values) {
    return of<T>(Shape{static_cast<std::int64_t>(values.size())}, values);
  }

  bool valid() const { return dtype_ != DType::invalid; }
  // Becomes no tensor. Cheaper than assigning Tensor(): the executor does this for every node.
  void reset() {
    dtype_ = DType::invalid;
    shape_ = Shape();
    elements_ = 0;
    offset_ = 0;
    buffer_ = BufferRef();
  }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t num_elements() const { return elements_; }
  std::size_t num_bytes() const { return static_cast<std::size_t>(elements_) * size_of(dtype_); }
  MemorySpace space() const { return buffer_ ? buffer_->space() : MemorySpace{}; }
  const BufferRef& buffer() const { return buffer_; }
  // Whether no other handle shares the buffer, so that it may be written in place.
  bool unique() const { return buffer_ && buffer_->unique(); }

  const std::byte* raw() const { return static_cast<const std::byte*>(buffer_ ? buffer_->data() : nullptr) + offset_; }
  std::byte* mutable_raw() { return static_cast<std::byte*>(buffer_ ? buffer_->data() : nullptr) + offset_; }
  bool aligned() const { return offset_ % kBufferAlignment == 0; }

  // The elements. Throws invalid_argument if T does not match the dtype, or the memory is not on the host.
  template <class T>
  const T* data() const {
    check_access(dtype_of<T>);
    return reinterpret_cast<const T*>(raw());
  }
  template <class T>
  T* mutable_data() {
    check_access(dtype_of<T>);
    return reinterpret_cast<T*>(mutable_raw());
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<std::size_t>(elements_)};
  }
  template <class T>
  std::span<T> mutable_values() {
    return {mutable_data<T>(), static_cast<std::size_t>(elements_)};
  }
  // The value of a tensor of one element.
  template <class T>
  const T& item() const {
    check_single();
    return *data<T>();
  }

  // A view with another shape of the same number of elements.
  Tensor reshaped(const Shape& shape) const;
  // A view of rows [begin, end) of dimension 0. May be unaligned: see aligned().
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  // A copy in its own host memory.
  Tensor clone() const;

  // "f32[2,3] = 1 2 3 4 5 6", cut after `limit` values.
  std::string to_string(int limit = 8) const;

 private:
  void check_access(DType wanted) const {
    if (wanted != dtype_ || wanted == DType::invalid || (buffer_ && !buffer_->space().on_host())) [[unlikely]]
      refuse_access(wanted);
  }
  void check_single() const {
    if (!valid() || elements_ != 1) [[unlikely]]
      refuse_single();
  }
  [[noreturn]] void refuse_access(DType wanted) const;
  [[noreturn]] void refuse_single() const;

  DType dtype_ = DType::invalid;
  Shape shape_;
  std::int64_t elements_ = 0;
  std::size_t offset_ = 0;
  BufferRef buffer_;
};

// Same dtype, shape and bytes (strings: same text).
bool bitwise_equal(const Tensor& a, const Tensor& b);

// Bytes of a tensor of this dtype and fully known shape. Throws invalid_argument on overflow.
std::size_t checked_bytes(DType dtype, const Shape& shape);

}  // namespace troupe
