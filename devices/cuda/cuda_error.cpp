#include "devices/cuda/cuda_error.hpp"

namespace troupe {

void throw_cuda_error(cudaError_t status, const char* call) {
  const Code code = status == cudaErrorMemoryAllocation ? Code::resource_exhausted : Code::unavailable;
  fail(code, "{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace troupe
