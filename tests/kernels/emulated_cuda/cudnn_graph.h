// Names of cuDNN that headers of kernels/cuda use, for a build without it. Stands in for the library's header of this
// name.
#pragma once

#include <cstdint>

#include "tests/kernels/emulated_cuda/cuda_runtime_api.h"

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_NOT_SUPPORTED };
enum cudnnBackendDescriptorType_t { CUDNN_BACKEND_ENGINE_DESCRIPTOR };
enum cudnnBackendAttributeName_t { CUDNN_ATTR_ENGINE_GLOBAL_INDEX };
enum cudnnBackendAttributeType_t {
  CUDNN_TYPE_HANDLE,
  CUDNN_TYPE_DATA_TYPE,
  CUDNN_TYPE_INT64,
  CUDNN_TYPE_FLOAT,
  CUDNN_TYPE_BOOLEAN
};
enum cudnnBackendNumericalNote_t { CUDNN_NUMERICAL_NOTE_TENSOR_CORE };
enum cudnnDataType_t { CUDNN_DATA_FLOAT };
using cudnnHandle_t = struct cudnnContext*;
using cudnnBackendDescriptor_t = void*;

inline cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_NOT_SUPPORTED; }
