#include "troupe/kernels/cuda/cublas_error.hpp"

#include <troupe/messages/error.hpp>

namespace troupe {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  Code code = Code::internal;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = Code::resource_exhausted;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) code = Code::unimplemented;
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED) code = Code::unavailable;
  fail(code, "{}: {}", call, cublasLtGetStatusString(status));
}

}  // namespace troupe
