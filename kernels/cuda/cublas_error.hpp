// Errors of cuBLAS as Error.
#pragma once

#include <cublasLt.h>

namespace troupe {

// Throws unless `status` is CUBLAS_STATUS_SUCCESS, with `call` and cuBLAS's text: resource_exhausted if memory is
// short, unimplemented if cuBLAS cannot do it, unavailable if the GPU failed, else internal.
void check_cublas(cublasStatus_t status, const char* call);

}  // namespace troupe
