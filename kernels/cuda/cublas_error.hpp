// Converts cuBLAS errors to Error.
#pragma once

#include <cublasLt.h>

namespace troupe {

// Throws unless `status` is CUBLAS_STATUS_SUCCESS, with `call` and cuBLAS's text: resource_exhausted if out of memory,
// unimplemented if cuBLAS does not support the call, unavailable if the GPU failed, else internal.
void check_cublas(cublasStatus_t status, const char* call);

}  // namespace troupe
