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
  return device::dispatch(device::Elements<float, double>{}, rows.dtype, [&]<class T>() {
    const device::RowPointers<T> p{static_cast<const T*>(dy), static_cast<const T*>(y), static_cast<T*>(dx), nullptr};
    return logarithm ? device::launch_rows(device::SoftmaxGrad<T, true>{}, p, rows, stream)
                     : device::launch_rows(device::SoftmaxGrad<T, false>{}, p, rows, stream);
  });
}

}  // namespace troupe
