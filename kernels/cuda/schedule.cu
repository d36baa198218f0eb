// Compiled without fused multiply-adds, as on the CPU.
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/fault.cuh>
#include <troupe/kernels/cuda/launch.cuh>
#include <troupe/kernels/cuda/schedule_launch.hpp>

namespace troupe {
namespace device {
namespace {

template <class T>
__global__ void learning_rate(const __grid_constant__ CudaSchedule schedule, const std::int64_t* t, CudaFaultSite fault,
                              T* rate) {
  if (*t < 0) report(fault, *t, 0, 0);
  *rate = narrow<T>(static_cast<Compute<T>>(schedule_rate(schedule, *t)));
}

}  // namespace
}  // namespace device

cudaError_t launch_learning_rate(DType dtype, const CudaSchedule& schedule, const std::int64_t* t, CudaFaultSite fault,
                                 void* rate, cudaStream_t stream) {
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(device::learning_rate<T>, 1, 1, stream, schedule, t, fault, static_cast<T*>(rate));
  });
}

}  // namespace troupe
