// Ops on the bits of integers, on single elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include <troupe/kernels/common/host_device.hpp>

namespace troupe {

struct BitwiseAndOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOrOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXorOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

// Negative numbers are large ones without their sign.
template <class T>
TROUPE_HOST_DEVICE bool moves_all_out(T bits) {
  return static_cast<std::make_unsigned_t<T>>(bits) >= 8 * sizeof(T);
}
struct LeftShiftOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x, T bits) const {
    return moves_all_out(bits) ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << bits);
  }
};
struct RightShiftOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x, T bits) const {
    const auto last = static_cast<T>(8 * sizeof(T) - 1);
    if constexpr (std::is_signed_v<T>)
      return static_cast<T>(x >> (moves_all_out(bits) ? last : bits));
    else
      return moves_all_out(bits) ? T{0} : static_cast<T>(x >> bits);
  }
};

}  // namespace troupe
