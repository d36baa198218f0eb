// Converts CUDA errors to Error.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include <troupe/messages/error.hpp>

namespace troupe {

class CudaFailure final : public Error {
 public:
  CudaFailure(Code code, std::string message, bool fatal) : Error(code, std::move(message)), fatal_(fatal) {}
  // Whether every later call of this process fails.
  bool fatal() const { return fatal_; }

 private:
  bool fatal_;
};

// Throws a CudaFailure unless `status` is cudaSuccess: "cudaMemcpyAsync: an illegal memory access was encountered
// (cudaErrorIllegalAddress)", with resource_exhausted if memory is short, else unavailable. `call`: the function or the
// kernel.
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call);
inline void check_cuda(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(status, call);
}

}  // namespace troupe
