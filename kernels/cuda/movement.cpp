// The GPU's half of kernels/common/movement.hpp. Strings never get here: they stay on the host.
#include <cstring>

#include <troupe/devices/cuda/cuda_device.hpp>
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cuda/movement_launch.hpp>

namespace troupe {

void strided_copy(Device& device, const Tensor& source, std::int64_t source_offset, Tensor& target,
                  std::int64_t target_offset, std::span<const CopyDim> dims) {
  CudaDevice& cuda = static_cast<CudaDevice&>(device);
  const CopyLoops loops = merge_loops(dims);
  if (loops.total == 0) return;
  const std::size_t bytes = size_of(source.dtype());
  std::byte* to = target.mutable_raw() + target_offset * static_cast<std::int64_t>(bytes);
  const bool one_everywhere = source.num_elements() == 1 && loops.rank == 1 && loops.dims[0].target_stride == 1;
  if (source.space().on_host() && one_everywhere) {  // a constant of the node
    std::uint64_t bits = 0;
    std::memcpy(&bits, source.raw(), bytes);
    return check_cuda(launch_fill(bits, bytes, to, loops.total, cuda.stream()), "fill");
  }
  const Tensor here = cuda.upload(source);
  const std::byte* from = here.raw() + source_offset * static_cast<std::int64_t>(bytes);
  check_cuda(launch_copy(plan_copy(loops, bytes, from, to), from, to, cuda.stream()), "copy");
}

Tensor make_zeros(Device& device, DType dtype, const Shape& shape) {
  Tensor out = device.allocator().tensor(dtype, shape);
  if (out.num_bytes() > 0)
    check_cuda(cudaMemsetAsync(out.mutable_raw(), 0, out.num_bytes(), static_cast<CudaDevice&>(device).stream()),
               "cudaMemsetAsync");
  return out;
}

}  // namespace troupe
