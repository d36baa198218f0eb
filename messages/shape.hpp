// Shapes: the dimensions of a tensor, possibly partly unknown while a graph is built.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace troupe {

inline constexpr int kMaxRank = 8;
inline constexpr std::int64_t kUnknown = -1;

// A list of dimensions, each >= 0 or kUnknown; or a shape of unknown rank. A trivially copyable value.
class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  // Throws invalid_argument for more than kMaxRank dimensions or one below kUnknown.
  explicit Shape(std::span<const std::int64_t> dims);
  static Shape unknown_rank();
  static Shape unknown(int rank);

  bool has_rank() const { return rank_ >= 0; }
  int rank() const { return rank_; }  // -1: unknown
  // Dimension i; a negative i counts from the end.
  std::int64_t dim(int i) const { return dims_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)]; }
  std::int64_t operator[](int i) const { return dim(i); }
  void set_dim(int i, std::int64_t value) { dims_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)] = value; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_ < 0 ? 0 : rank_)}; }
  bool is_scalar() const { return rank_ == 0; }
  bool fully_known() const;
  // Number of elements of a fully known shape. Throws invalid_argument if the product does not fit 63 bits.
  std::int64_t num_elements() const { return rank_ == 0 ? 1 : product(); }

  Shape with_appended(std::int64_t dim) const;
  Shape without(int axis) const;
  // Dimensions [begin, end).
  Shape sub(int begin, int end) const;
  Shape concatenated(const Shape& tail) const;

  // Whether both could describe one tensor.
  bool compatible_with(const Shape& other) const;
  // Combines the known dimensions of both; nullopt if they contradict.
  std::optional<Shape> merged(const Shape& other) const;

  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (dim(i) != other.dim(i)) return false;
    return true;
  }
  std::string to_string() const;  // "[32,?,3]", "[?...]" for unknown rank

 private:
  std::int64_t product() const;

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// The shape of an elementwise result under NumPy's broadcasting rules. Throws invalid_argument if the shapes do not
// match.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace troupe
