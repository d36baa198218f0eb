// Device part of reduce_launch.hpp: products.
#include <troupe/kernels/cuda/reduce_kernels.cuh>

namespace troupe {
namespace device {
namespace {

template <class T>
struct Product {
  static constexpr bool kInteger = std::is_integral_v<T>;
  using Element = T;
  using Out = T;
  using Acc = std::conditional_t<kInteger, unsigned long long, double>;
  using Lane = Acc;

  __device__ Lane lane() const { return 1; }
  __device__ Acc acc() const { return 1; }
  __device__ Lane step(Lane lane, T x, std::int64_t) const { return lane * static_cast<Lane>(widen(x)); }
  __device__ Lane join(Lane a, Lane b) const { return a * b; }
  __device__ Acc widened(Lane a) const { return a; }
  __device__ Acc merge(Acc a, Acc b) const { return a * b; }
  __device__ static Acc shuffled(Acc a, int mask) { return shuffle_xor(a, mask); }
  __device__ T finish(Acc acc) const {
    if constexpr (kInteger)
      return static_cast<T>(acc);
    else
      return narrow<T>(static_cast<Compute<T>>(acc));
  }
};

}  // namespace
}  // namespace device

cudaError_t launch_reduce_prod(const ReduceLaunch& launch, cudaStream_t stream) {
  return device::dispatch(device::RealElements{}, launch.dtype,
                          [&]<class T>() { return device::launch_reduce(device::Product<T>{}, launch, stream); });
}

}  // namespace troupe
