// The dtypes of IDX files (http://yann.lecun.com/exdb/mnist), by the third byte of the file.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

struct IdxType {
  std::uint8_t code;
  DType dtype;
};
inline constexpr std::array kIdxTypes = {IdxType{0x08, DType::u8},  IdxType{0x09, DType::i8},
                                         IdxType{0x0b, DType::i16}, IdxType{0x0c, DType::i32},
                                         IdxType{0x0d, DType::f32}, IdxType{0x0e, DType::f64}};

// 0: IDX does not have it.
constexpr std::uint8_t idx_code(DType dtype) {
  for (const IdxType& type : kIdxTypes)
    if (type.dtype == dtype) return type.code;
  return 0;
}

}  // namespace troupe
