// Device part of softmax_launch.hpp: softmax.
#include <troupe/kernels/cuda/softmax_rows.cuh>

namespace troupe {
namespace device {
namespace {

template <class Element, bool kLogarithm>
struct Softmax {
  using T = Element;
  static constexpr bool kSecond = false, kExponential = true, kLoss = false;

  __device__ NoRow row(std::int64_t) const { return {}; }
  __device__ T emit(NoRow, const Stats<T>& stats, std::int64_t, T x, T, T e) const {
    return kLogarithm ? x - stats.maximum - stats.log_value : e * stats.inverse;
  }
};

}  // namespace
}  // namespace device

cudaError_t launch_softmax(SoftmaxRows rows, bool logarithm, const void* x, void* out, cudaStream_t stream) {
  return device::dispatch(device::Elements<float, double>{}, rows.dtype, [&]<class T>() {
    const device::RowPointers<T> p{static_cast<const T*>(x), nullptr, static_cast<T*>(out), nullptr};
    return logarithm ? device::launch_rows(device::Softmax<T, true>{}, p, rows, stream)
                     : device::launch_rows(device::Softmax<T, false>{}, p, rows, stream);
  });
}

}  // namespace troupe
