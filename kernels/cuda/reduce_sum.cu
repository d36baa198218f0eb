// Device part of reduce_launch.hpp: sums, means, and sums of squares.
#include <troupe/kernels/cuda/reduce_kernels.cuh>

namespace troupe {
namespace device {
namespace {

template <class T>
struct Sum {
  static constexpr bool kInteger = std::is_integral_v<T>;
  using Element = T;
  using Out = T;
  using Lane = std::conditional_t<kInteger, unsigned long long, Compute<T>>;
  using Acc = std::conditional_t<kInteger, unsigned long long, double>;

  double divisor;

  __device__ Lane lane() const { return 0; }
  __device__ Acc acc() const { return 0; }
  __device__ Lane step(Lane lane, T x, std::int64_t) const { return lane + static_cast<Lane>(widen(x)); }
  __device__ Lane join(Lane a, Lane b) const { return a + b; }
  __device__ Acc widened(Lane a) const { return static_cast<Acc>(a); }
  __device__ Acc merge(Acc a, Acc b) const { return a + b; }
  __device__ static Acc shuffled(Acc a, int mask) { return shuffle_xor(a, mask); }
  __device__ T finish(Acc acc) const {
    if constexpr (kInteger)
      return static_cast<T>(static_cast<long long>(acc) / static_cast<long long>(divisor));
    else
      return narrow<T>(static_cast<Compute<T>>(acc / divisor));
  }
};

template <class T>
struct SquareSum : Sum<T> {
  using Lane = typename Sum<T>::Lane;
  __device__ Lane step(Lane lane, T x, std::int64_t) const {
    return lane + static_cast<Lane>(widen(x)) * static_cast<Lane>(widen(x));
  }
};

}  // namespace
}  // namespace device

cudaError_t launch_reduce_sum(const ReduceLaunch& launch, double divisor, cudaStream_t stream) {
  return device::dispatch(device::RealElements{}, launch.dtype,
                          [&]<class T>() { return device::launch_reduce(device::Sum<T>{divisor}, launch, stream); });
}

cudaError_t launch_reduce_squares(const ReduceLaunch& launch, double divisor, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, launch.dtype, [&]<class T>() {
    return device::launch_reduce(device::SquareSum<T>{{divisor}}, launch, stream);
  });
}

}  // namespace troupe
