// Row-major matrix products in terms of cuBLASLt, which is column-major: plain functions, testable without a GPU.
//
// A row-major matrix is the transpose of the column-major one in the same memory. So out = a b (m x n) is out^T = b^T
// a^T (n x m) with the factors swapped and no element moved: b is cuBLASLt's A, a is its B, and a bias of n values
// has one value per row of its output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <troupe/kernels/common/activation.hpp>
#include <troupe/messages/buffer.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// Work that cuBLASLt adds to the product before storing it.
enum class ProductEnding : std::uint8_t { none, bias };

// Everything that the choice of an algorithm depends on; memory addresses matter only through `alignment`.
struct ProductKey {
  DType dtype = DType::invalid;  // of both factors and the bias
  DType out_dtype = DType::invalid;
  bool transpose_a = false;
  bool transpose_b = false;
  bool tf32 = false;
  bool deterministic = true;
  ProductEnding ending = ProductEnding::none;
  std::uint32_t alignment = kBufferAlignment;  // of the three matrices, in bytes
  std::int64_t m = 0, n = 0, k = 0;
  // Several products of one size: their number, and the steps between factors, in elements; results lie one after
  // another.
  std::int64_t batch = 1;
  std::int64_t a_step = 0, b_step = 0;

  bool operator==(const ProductKey&) const = default;
};

// The three matrices, column-major: first (b), second (a), out.
struct ColumnMajor {
  struct Matrix {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t stride = 0;  // between columns, in elements
    bool operator==(const Matrix&) const = default;
  };
  Matrix first, second, out;
  bool transpose_first = false;
  bool transpose_second = false;
};

inline ColumnMajor column_major(const ProductKey& key) {
  // `rows` rows of `columns` elements, as stored row-major.
  const auto stored = [](std::int64_t rows, std::int64_t columns) {
    return ColumnMajor::Matrix{columns, rows, columns};
  };
  return {.first = key.transpose_b ? stored(key.n, key.k) : stored(key.k, key.n),
          .second = key.transpose_a ? stored(key.k, key.m) : stored(key.m, key.k),
          .out = stored(key.m, key.n),
          .transpose_first = key.transpose_b,
          .transpose_second = key.transpose_a};
}

// How product, bias and activation are divided between cuBLASLt and a later launch.
struct FusedProduct {
  ProductEnding ending = ProductEnding::none;
  bool bias_after = false;
  FusedActivation activation_after = FusedActivation::none;
  bool anything_after() const { return bias_after || activation_after != FusedActivation::none; }
  bool operator==(const FusedProduct&) const = default;
};

// cuBLASLt adds biases of f32, f16 and bf16. Its ReLU is not used: it reportedly turns NaN into 0
// (forums.developer.nvidia.com/t/329783), and NaN must be kept. It has no sigmoid and no tanh. A product without terms
// does not use cuBLASLt.
inline FusedProduct share_out(DType dtype, std::int64_t k, bool bias, FusedActivation activation) {
  if (!bias) return {.activation_after = activation};
  if (dtype == DType::f64 || k == 0) return {.bias_after = true, .activation_after = activation};
  return {.ending = ProductEnding::bias, .activation_after = activation};
}

// Leaves bias and activation to a later launch.
inline FusedProduct all_after(bool bias, FusedActivation activation) {
  return {.bias_after = bias, .activation_after = activation};
}

// Hash of all members.
template <class... Ts>
std::size_t hash_of(const Ts&... members) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  };
  (mix(static_cast<std::uint64_t>(members)), ...);
  return static_cast<std::size_t>(hash);
}

}  // namespace troupe

template <>
struct std::hash<troupe::ProductKey> {
  std::size_t operator()(const troupe::ProductKey& key) const {
    return troupe::hash_of(key.dtype, key.out_dtype, key.transpose_a, key.transpose_b, key.tf32, key.deterministic,
                           key.ending, key.alignment, key.m, key.n, key.k, key.batch, key.a_step, key.b_step);
  }
};
