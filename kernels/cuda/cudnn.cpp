#include "troupe/kernels/cuda/cudnn.hpp"

#include <array>
#include <utility>
#include <vector>

#include <troupe/messages/error.hpp>

namespace troupe {

bool gpu_failed(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_EXECUTION_FAILED || status == CUDNN_STATUS_NOT_INITIALIZED;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  Code code = Code::internal;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    code = Code::resource_exhausted;
  else if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED)
    code = Code::unimplemented;
  else if (gpu_failed(status))
    code = Code::unavailable;
  std::array<char, 512> last{};
  cudnnGetLastErrorString(last.data(), last.size());
  last.back() = '\0';
  fail(code, "{}: {}{}{}", call, cudnnGetErrorString(status), last[0] ? "; " : "", last.data());
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_) static_cast<void>(cudnnBackendDestroyDescriptor(descriptor_));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  check_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "cudnnBackendSetAttribute");
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::initializer_list<const CudnnDescriptor*> values) {
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (const CudnnDescriptor* value : values) descriptors.push_back(value->get());
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(descriptors.size()), descriptors.data());
}

void CudnnDescriptor::finalize() { check_cudnn(try_finalize(), "cudnnBackendFinalize"); }

}  // namespace troupe
