#include "troupe/devices/cuda/cuda_error.hpp"

namespace troupe {
namespace {

// Those that CUDA calls sticky.
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
  static_cast<void>(cudaGetLastError());  // told here; the next launch must not be taken for what failed
  const Code code = status == cudaErrorMemoryAllocation ? Code::resource_exhausted : Code::unavailable;
  throw CudaFailure(code, fmt::format("{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)),
                    is_fatal(status));
}

}  // namespace troupe
