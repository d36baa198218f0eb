// Device part of reduce_launch.hpp: indices of maxima and minima.
#include <troupe/kernels/cuda/reduce_kernels.cuh>

namespace troupe {
namespace device {
namespace {

// A value and its index among the terms.
template <class V>
struct Place {
  V value;
  long long index;
};

template <class T>
struct ArgExtreme {
  using Element = T;
  using Out = std::int64_t;
  using Value = Compute<T>;
  using Lane = Place<Value>;
  using Acc = Lane;

  bool greatest;
  bool last;

  __device__ Lane lane() const {
    return {greatest ? beaten_by_all<Value, true>() : beaten_by_all<Value, false>(),
            last ? -1 : std::numeric_limits<long long>::max()};
  }
  __device__ Acc acc() const { return lane(); }
  // Keeps the first or last extremum, whatever the order of the calls.
  __device__ Lane join(Lane a, Lane b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool same = (a_nan & b_nan) | (a.value == b.value);
    const bool beats = greatest ? b.value > a.value : b.value < a.value;
    const bool takes_tie = last ? b.index > a.index : b.index < a.index;
    return (same ? takes_tie : b_nan ? !a_nan : (beats & !a_nan)) ? b : a;
  }
  __device__ Lane step(Lane lane, T x, std::int64_t index) const { return join(lane, {widen(x), index}); }
  __device__ Acc widened(Lane a) const { return a; }
  __device__ Acc merge(Acc a, Acc b) const { return join(a, b); }
  __device__ static Acc shuffled(Acc a, int mask) { return {shuffle_xor(a.value, mask), shuffle_xor(a.index, mask)}; }
  __device__ std::int64_t finish(Acc acc) const { return acc.index; }
};

}  // namespace
}  // namespace device

cudaError_t launch_arg_extreme(const ReduceLaunch& launch, bool greatest, bool last, cudaStream_t stream) {
  return device::dispatch(device::RealElements{}, launch.dtype, [&]<class T>() {
    return device::launch_reduce(device::ArgExtreme<T>{greatest, last}, launch, stream);
  });
}

}  // namespace troupe
