// f16 and bf16 are computed in float, each element rounded once.
#include <troupe/kernels/cuda/updates_dense.cuh>

namespace troupe {

cudaError_t launch_narrow_updates(DType dtype, const OptimizerRule& rule, const UpdateTable& table, const void* lr,
                                  const std::int64_t* t, CudaFaultSite fault, cudaStream_t stream) {
  return device::launch_updates_of(device::Elements<__half, __nv_bfloat16>{}, dtype, rule, table, lr, t, fault, stream);
}

}  // namespace troupe
