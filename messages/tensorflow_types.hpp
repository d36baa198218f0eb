// TensorFlow's element types, by their numbers in its files (tensorflow/core/framework/types.proto: DataType).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <troupe/messages/dtype.hpp>

namespace troupe {

struct TensorflowType {
  std::string_view name;
  DType dtype = DType::invalid;  // invalid: Troupe has no such elements
};

// The place in the list is the number.
inline constexpr std::array<TensorflowType, 24> kTensorflowTypes = {{{"DT_INVALID"},
                                                                     {"DT_FLOAT", DType::f32},
                                                                     {"DT_DOUBLE", DType::f64},
                                                                     {"DT_INT32", DType::i32},
                                                                     {"DT_UINT8", DType::u8},
                                                                     {"DT_INT16", DType::i16},
                                                                     {"DT_INT8", DType::i8},
                                                                     {"DT_STRING", DType::string},
                                                                     {"DT_COMPLEX64"},
                                                                     {"DT_INT64", DType::i64},
                                                                     {"DT_BOOL", DType::boolean},
                                                                     {"DT_QINT8"},
                                                                     {"DT_QUINT8"},
                                                                     {"DT_QINT32"},
                                                                     {"DT_BFLOAT16", DType::bf16},
                                                                     {"DT_QINT16"},
                                                                     {"DT_QUINT16"},
                                                                     {"DT_UINT16", DType::u16},
                                                                     {"DT_COMPLEX128"},
                                                                     {"DT_HALF", DType::f16},
                                                                     {"DT_RESOURCE"},
                                                                     {"DT_VARIANT"},
                                                                     {"DT_UINT32", DType::u32},
                                                                     {"DT_UINT64", DType::u64}}};

// The type of a number; "unknown" for one that is not in the list.
constexpr TensorflowType tensorflow_type(std::uint64_t number) {
  return number < kTensorflowTypes.size() ? kTensorflowTypes[number] : TensorflowType{"unknown"};
}

// The number of a type; 0 if TensorFlow has none.
constexpr std::uint64_t tensorflow_number(DType dtype) {
  for (std::uint64_t i = 1; i < kTensorflowTypes.size(); ++i)
    if (kTensorflowTypes[i].dtype == dtype && dtype != DType::invalid) return i;
  return 0;
}

}  // namespace troupe
