// Device part of reduce_launch.hpp: maxima and minima.
#include <troupe/kernels/cuda/reduce_kernels.cuh>

namespace troupe {
namespace device {
namespace {

template <class T, bool kGreatest>
struct Extreme {
  using Element = T;
  using Out = T;
  using Lane = Compute<T>;
  using Acc = Lane;

  __device__ Lane lane() const { return beaten_by_all<Lane, kGreatest>(); }
  __device__ Acc acc() const { return lane(); }
  // NaN if either operand is NaN.
  __device__ Lane join(Lane a, Lane b) const { return ((kGreatest ? a > b : a < b) | (a != a)) ? a : b; }
  __device__ Lane step(Lane lane, T x, std::int64_t) const { return join(lane, widen(x)); }
  __device__ Acc widened(Lane a) const { return a; }
  __device__ Acc merge(Acc a, Acc b) const { return join(a, b); }
  __device__ static Acc shuffled(Acc a, int mask) { return shuffle_xor(a, mask); }
  __device__ T finish(Acc acc) const { return narrow<T>(acc); }
};

}  // namespace
}  // namespace device

cudaError_t launch_reduce_extreme(const ReduceLaunch& launch, bool greatest, cudaStream_t stream) {
  return device::dispatch(device::RealElements{}, launch.dtype, [&]<class T>() {
    return greatest ? device::launch_reduce(device::Extreme<T, true>{}, launch, stream)
                    : device::launch_reduce(device::Extreme<T, false>{}, launch, stream);
  });
}

}  // namespace troupe
