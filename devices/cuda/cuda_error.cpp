#include "troupe/devices/cuda/cuda_error.hpp"

namespace troupe {
namespace {

// Errors that CUDA calls sticky.
bool is_fatal(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
      return true;
    default:
      return false;
  }
}

}  // namespace

void throw_cuda_error(cudaError_t status, const char* call) {
  static_cast<void>(cudaGetLastError());  // reported here; must not be attributed to the next launch
  const Code code = status == cudaErrorMemoryAllocation ? Code::resource_exhausted : Code::unavailable;
  throw CudaFailure(code, fmt::format("{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)),
                    is_fatal(status));
}

}  // namespace troupe
