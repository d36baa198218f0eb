// Element types of tensors.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

enum class DType : std::uint8_t {
  invalid = 0,
  f32 = 1,
  f64 = 2,
  f16 = 3,
  bf16 = 4,
  i8 = 5,
  u8 = 6,
  i16 = 7,
  i32 = 8,
  i64 = 9,
  boolean = 10,
  string = 11,
  resource = 12,  // the handle of a variable; exists in graphs, never as data
  u16 = 13,
  u32 = 14,
  u64 = 15,
  list = 16,  // of tensors (tensor_list.hpp); never in a message or a file
};

// IEEE 754 binary16, stored; arithmetic happens in float. Conversion rounds to nearest even.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
  bool operator==(const Half&) const = default;
};

// The upper half of a float. Conversion rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  bool operator==(const BFloat16&) const = default;
};

// Bytes of one element in memory; sizeof(std::string) for string; 0 for invalid and resource.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
    case DType::string:
      return sizeof(std::string);
    default:
      return 0;
  }
}
std::string_view name(DType dtype);  // "f32", "bool", ...
std::optional<DType> parse_dtype(std::string_view name);
bool is_valid(DType dtype);
// Whether tensors of the dtype may be in messages and files.
inline bool is_data(DType dtype) { return is_valid(dtype) && dtype != DType::resource && dtype != DType::list; }
constexpr bool is_floating(DType d) { return d >= DType::f32 && d <= DType::bf16; }
constexpr bool is_unsigned(DType d) { return d == DType::u8 || (d >= DType::u16 && d <= DType::u64); }
constexpr bool is_integer(DType d) { return (d >= DType::i8 && d <= DType::i64) || is_unsigned(d); }

template <class T>
inline constexpr DType dtype_of = DType::invalid;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::string> = DType::string;

}  // namespace troupe
