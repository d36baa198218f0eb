// The part for f32 and f64.
#include <troupe/kernels/cuda/updates_dense.cuh>

namespace troupe {

cudaError_t launch_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                           const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream) {
  if (table.blocks == 0) return cudaSuccess;
  if (dtype == DType::f16 || dtype == DType::bf16)
    return launch_narrow_updates(dtype, rule, table, lr, t, fault, stream);
  return device::launch_updates_of(device::Elements<float, double>{}, dtype, rule, table, lr, t, fault, stream);
}

}  // namespace troupe
