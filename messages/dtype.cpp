#include "troupe/messages/dtype.hpp"

#include <array>

namespace troupe {
namespace {

constexpr std::array<std::string_view, 17> kNames = {"invalid",  "f32", "f64", "f16", "bf16", "i8",
                                                     "u8",       "i16", "i32", "i64", "bool", "string",
                                                     "resource", "u16", "u32", "u64", "list"};

}  // namespace

bool is_valid(DType dtype) { return static_cast<std::size_t>(dtype) < kNames.size() && dtype != DType::invalid; }

std::string_view name(DType dtype) { return kNames[is_valid(dtype) ? static_cast<std::size_t>(dtype) : 0]; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 1; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<DType>(i);
  return std::nullopt;
}

BFloat16::BFloat16(float value) {
  const auto raw = std::bit_cast<std::uint32_t>(value);
  if ((raw & 0x7fffffffu) > 0x7f800000u)
    bits = static_cast<std::uint16_t>((raw >> 16) | 0x40u);  // keep a NaN quiet: rounding could make it Inf
  else
    bits = static_cast<std::uint16_t>((raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16);
}

Half::Half(float value) {
  const auto raw = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (raw >> 16) & 0x8000u;
  const std::uint32_t magnitude = raw & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<std::uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // rounds to 2^16 or more
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, a multiple of 2^-24
    // Adding 0.5 aligns the wanted bits at the end of the mantissa, and the addition rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  } else {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

Half::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

}  // namespace troupe
