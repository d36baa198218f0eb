// cuDNN's graph API: descriptors are filled attribute by attribute, finalized, and then immutable.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <initializer_list>
#include <span>

namespace troupe {

// Throws unless `status` is CUDNN_STATUS_SUCCESS, with `call`, cuDNN's text and its last error message:
// resource_exhausted if out of memory, unimplemented if cuDNN does not support the call, unavailable if the GPU failed,
// else internal.
void check_cudnn(cudnnStatus_t status, const char* call);
// True if the GPU or its driver failed rather than the request: another engine would fail too.
bool gpu_failed(cudnnStatus_t status);

class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  ~CudnnDescriptor();
  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
  void set(cudnnBackendAttributeName_t name, float value) { set(name, CUDNN_TYPE_FLOAT, 1, &value); }
  void set(cudnnBackendAttributeName_t name, bool value) { set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value) { set(name, CUDNN_TYPE_HANDLE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, std::initializer_list<const CudnnDescriptor*> values);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) { set(name, {&value}); }

  void finalize();
  // Does not throw.
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(descriptor_); }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace troupe
