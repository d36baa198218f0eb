// Device part of softmax_launch.hpp: gradients of softmax.
#include <troupe/kernels/cuda/softmax_rows.cuh>

namespace troupe {
namespace device {
namespace {

// dx = y (dy - sum dy y), or dy - exp(y) sum dy.
template <class Element, bool kLogarithm>
struct SoftmaxGrad {
  using T = Element;
  static constexpr bool kSecond = true, kExponential = false, kLoss = false;

  __device__ T term(T dy, T y) const { return kLogarithm ? dy : dy * y; }
  __device__ NoRow row(std::int64_t) const { return {}; }
  __device__ T emit(NoRow, const Stats<T>& stats, std::int64_t, T dy, T y, T) const {
    return kLogarithm ? dy - exponential(y) * stats.value : y * (dy - stats.value);
  }
};

}  // namespace
}  // namespace device

cudaError_t launch_softmax_grad(SoftmaxRows rows, bool logarithm, const void* dy, const void* y, void* dx,
                                cudaStream_t stream) {
  const device::RowTensors tensors{.first = dy, .second = y, .out = dx};
  if (logarithm)
    return device::launch_rows(rows, tensors, stream, [](auto t) { return device::SoftmaxGrad<decltype(t), true>{}; });
  return device::launch_rows(rows, tensors, stream, [](auto t) { return device::SoftmaxGrad<decltype(t), false>{}; });
}

}  // namespace troupe
