// The types of tensor elements, in lists, and calls of templates with the type of a dtype:
//
//   dispatch(RealTypes{}, x.dtype(), [&]<class T>() { sum<T>(x); });
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

template <class... Ts>
struct Types {};

template <class... As, class... Bs>
constexpr Types<As..., Bs...> operator+(Types<As...>, Types<Bs...>) {
  return {};
}

using WideFloatTypes = Types<float, double>;
using FloatTypes = Types<float, double, Half, BFloat16>;
using SignedTypes = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
using UnsignedTypes = Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using IntegerTypes = decltype(SignedTypes{} + UnsignedTypes{});
using RealTypes = decltype(FloatTypes{} + IntegerTypes{});
using DataTypes = decltype(RealTypes{} + Types<bool>{});
using IndexTypes = Types<std::int32_t, std::int64_t>;
using ElementTypes = decltype(DataTypes{} + Types<std::string>{});

// The type used for arithmetic on T.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <class... Ts>
std::vector<DType> dtypes_of(Types<Ts...>) {
  return {dtype_of<Ts>...};
}

// Calls fn.template operator()<T>() for every type.
template <class... Ts, class Fn>
void for_each_type(Types<Ts...>, Fn&& fn) {
  (fn.template operator()<Ts>(), ...);
}

// Calls fn.template operator()<T>() for the type of `dtype` and returns its result. Throws unimplemented if the type is
// not in the list.
template <class First, class... Ts, class Fn>
auto dispatch(Types<First, Ts...>, DType dtype, Fn&& fn) -> decltype(fn.template operator()<First>()) {
  if (dtype == dtype_of<First>) return fn.template operator()<First>();
  if constexpr (sizeof...(Ts) > 0)
    return dispatch(Types<Ts...>{}, dtype, std::forward<Fn>(fn));
  else
    fail(Code::unimplemented, "dtype {} is not supported", name(dtype));
}

}  // namespace troupe
