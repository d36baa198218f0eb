// The part of CUDA's runtime that kernels/cuda uses, for a GPU that is emulated on the host: everything happens in the
// call, on the thread that makes it. Stands in for the toolkit's header of this name.
#pragma once

#include <cstddef>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorInvalidConfiguration,
  cudaErrorMemoryAllocation,
  cudaErrorLaunchFailure,
  cudaErrorLaunchTimeout,
  cudaErrorIllegalAddress,
  cudaErrorIllegalInstruction,
  cudaErrorInvalidAddressSpace,
  cudaErrorInvalidPc,
  cudaErrorMisalignedAddress,
  cudaErrorHardwareStackError,
  cudaErrorAssert,
  cudaErrorECCUncorrectable,
  cudaErrorNvlinkUncorrectable,
  cudaErrorContained,
  cudaErrorTensorMemoryLeak,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t status);
const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);
