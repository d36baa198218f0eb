// Device part of array_launch.hpp.
#include <troupe/kernels/cuda/array_launch.hpp>
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace device {
namespace {

template <class T>
__global__ void range_kernel(RangeArguments arguments) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= arguments.count) return;
  auto* out = static_cast<T*>(arguments.out);
  if constexpr (std::is_integral_v<T>)
    out[i] = static_cast<T>(arguments.start + static_cast<std::uint64_t>(i) * arguments.delta);
  else  // rounded one at a time, as on the CPU
    out[i] = static_cast<T>(__dadd_rn(arguments.real_start, __dmul_rn(static_cast<double>(i), arguments.real_delta)));
}

}  // namespace
}  // namespace device

cudaError_t launch_range(const RangeArguments& arguments, cudaStream_t stream) {
  if (arguments.count == 0) return cudaSuccess;
  using Numbers = device::Elements<float, double, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;
  return device::dispatch(Numbers{}, arguments.dtype, [&]<class T>() {
    const LaunchGrid grid = grid_for(arguments.count, 1);
    return device::launch(device::range_kernel<T>, grid.blocks, grid.threads, stream, arguments);
  });
}

}  // namespace troupe
