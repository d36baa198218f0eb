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
  const device::RowTensors tensors{.first = x, .out = out};
  if (logarithm)
    return device::launch_rows(rows, tensors, stream, [](auto t) { return device::Softmax<decltype(t), true>{}; });
  return device::launch_rows(rows, tensors, stream, [](auto t) { return device::Softmax<decltype(t), false>{}; });
}

}  // namespace troupe
