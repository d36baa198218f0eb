#include "kernels/cuda/index_faults.hpp"

#include <atomic>
#include <new>

#include "devices/cuda/cuda_error.hpp"

namespace troupe {

IndexFaults::IndexFaults(CudaDevice&) {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, sizeof(IndexFault), cudaHostAllocMapped), "cudaHostAlloc");
  fault_ = new (memory) IndexFault();
  void* seen = nullptr;
  if (const cudaError_t status = cudaHostGetDevicePointer(&seen, memory, 0); status != cudaSuccess) {
    cudaFreeHost(memory);
    check_cuda(status, "cudaHostGetDevicePointer");
  }
  on_device_ = static_cast<IndexFault*>(seen);
}

IndexFaults::~IndexFaults() { cudaFreeHost(fault_); }

void IndexFaults::check() {
  const std::atomic_ref<unsigned> state(fault_->state);
  if (state.load(std::memory_order_acquire) != 2) return;
  const IndexFault found = *fault_;
  state.store(0, std::memory_order_release);
  invalid_argument("index {} (element {}) is not in [0, {}), in an op that ran before this one", found.index, found.element, found.rows);
}

}  // namespace troupe
