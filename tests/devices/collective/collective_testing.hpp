// What collectives must come to, computed the plain way, and tensors to try them with.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::testing {

// Calls fn with a value of the dtype.
template <class Fn>
void with_dtype(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::f32:
      return fn(float());
    case DType::f64:
      return fn(double());
    case DType::f16:
      return fn(Half());
    case DType::bf16:
      return fn(BFloat16());
    case DType::i32:
      return fn(std::int32_t());
    default:
      return fn(std::int64_t());
  }
}

// Values whose sums are rounded, different for each seed.
inline Tensor random_tensor(DType dtype, const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor out(dtype, shape);
  with_dtype(dtype, [&]<class T>(T) {
    for (T& value : out.mutable_values<T>()) {
      if constexpr (std::is_integral_v<T>)
        value = static_cast<T>(static_cast<T>(random()) << (sizeof(T) == 4 ? 0 : 31));
      else
        value = static_cast<T>(static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 37.0f);
    }
  });
  return out;
}

template <class T>
T plainly_added(T a, T b, std::uint32_t divisor) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<T>(static_cast<U>(a) + static_cast<U>(b)) / static_cast<T>(divisor));
  } else if constexpr (sizeof(T) == 2) {
    return T((static_cast<float>(a) + static_cast<float>(b)) / static_cast<float>(divisor));
  } else {
    return (a + b) / static_cast<T>(divisor);
  }
}
template <class T>
T plainly_greater(T a, T b) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(a) > static_cast<float>(b) ? a : b;
  else
    return a > b ? a : b;
}

// Element by element: part p, of whole cache lines, from rank p on.
inline Tensor reduced_by_hand(const std::vector<Tensor>& ranks, Reduction reduction) {
  Tensor out = ranks[0].clone();
  const auto n = static_cast<std::int64_t>(ranks.size());
  const std::int64_t line = 64 / static_cast<std::int64_t>(size_of(out.dtype()));
  const std::int64_t each = ((out.num_elements() + n - 1) / n + line - 1) / line * line;
  with_dtype(out.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < out.num_elements(); ++i) {
      const std::int64_t first = i / each;
      T sum = ranks[static_cast<std::size_t>(first)].template data<T>()[i];
      for (std::int64_t k = 1; k < n; ++k) {
        const T next = ranks[static_cast<std::size_t>((first + k) % n)].template data<T>()[i];
        const bool divides = reduction == Reduction::mean && k == n - 1;
        sum = reduction == Reduction::max ? plainly_greater(sum, next)
                                          : plainly_added(sum, next, divides ? static_cast<std::uint32_t>(n) : 1);
      }
      out.mutable_data<T>()[i] = sum;
    }
  });
  return out;
}

}  // namespace troupe::testing
