#include "troupe/kernels/cpu/finite.hpp"

#include <atomic>
#include <cstring>

#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// The bits of an element and the position of its exponent, which is all ones in infinities and NaN.
template <class T>
struct Exponent;
template <>
struct Exponent<float> {
  using Bits = std::uint32_t;
  static constexpr Bits kMask = 0x7f800000u;
};
template <>
struct Exponent<double> {
  using Bits = std::uint64_t;
  static constexpr Bits kMask = 0x7ff0000000000000u;
};
template <>
struct Exponent<Half> {
  using Bits = std::uint16_t;
  static constexpr Bits kMask = 0x7c00u;
};
template <>
struct Exponent<BFloat16> {
  using Bits = std::uint16_t;
  static constexpr Bits kMask = 0x7f80u;
};

constexpr std::int64_t kGrain = 65536;

template <class T>
bool stretch_finite(const T* x, std::int64_t count) {
  using Bits = typename Exponent<T>::Bits;
  constexpr Bits kMask = Exponent<T>::kMask;
  Bits bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bad = static_cast<Bits>(bad | ((bits & kMask) == kMask ? 1 : 0));
  }
  return bad == 0;
}

}  // namespace

bool all_finite(Parallelism& parallelism, const Tensor& x) {
  std::atomic<bool> finite = true;
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T* values = x.data<T>();
    parallelism.parallel_for(x.num_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (finite.load(std::memory_order_relaxed) && !stretch_finite(values + begin, end - begin))
        finite.store(false, std::memory_order_relaxed);
    });
  });
  return finite.load(std::memory_order_relaxed);
}

void register_finite_kernels(KernelRegistry& registry) {
  add_kernels(registry, "AllFinite", FloatTypes{}, []<class T>(KernelContext& c) {
    bool finite = true;
    for (int i = 0; finite && i < c.num_inputs(); ++i) finite = all_finite(c.parallelism(), c.input(i));
    Tensor out = c.allocate(DType::boolean, Shape{});
    *out.mutable_data<bool>() = finite;
    c.set_output(0, std::move(out));
  });
}

}  // namespace troupe
