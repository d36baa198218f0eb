// A GPU as a device. One host thread launches kernels on the GPU's compute stream; copies from and to the host and
// other GPUs have their own streams, so that they overlap with kernels. Threads that wait for events run their
// callbacks.
//
// Memory is ordered by the compute stream: a buffer released before the kernels that use it have run is reused only by
// kernels launched later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <troupe/devices/cuda/cuda_driver.hpp>
#include <troupe/devices/cuda/cuda_faults.hpp>
#include <troupe/devices/cuda/parts_sum.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/devices/plugin.hpp>

namespace troupe {

class CudaEventPool;
class NcclDriver;

class CudaDevice : public Device {
 public:
  // The stream for kernel launches, a cudaStream_t. On the thread of compute() only.
  virtual CudaStreamHandle stream() const = 0;
  virtual const CudaProperties& properties() const = 0;
  virtual const AcceleratorOptions& options() const = 0;
  virtual int ordinal() const = 0;

  // Throws while recording: guards work that must not be recorded, like the search for a plan. On the thread of
  // compute() only.
  virtual void not_recorded(std::string_view what) const = 0;
  // Address from which recorded kernels read the step's randomness at run time; null while not recording: use the
  // kernel's arguments. On the thread of compute() only.
  virtual const RandomKey* recorded_random() = 0;
  // Argument for kernels that check their data: a fault they find fails the step (cuda_faults.hpp). On the thread of
  // compute() only.
  virtual CudaFaultSite fault_site(CudaFaultText text, std::string_view detail = {}) = 0;
  // Argument for kernels that change state outliving the step: they must not once a fault has been found. On the thread
  // of compute() only.
  virtual const CudaFault* fault() = 0;
  // Keeps `what` alive until kernels launched from here on have run or, if they are recorded, as long as the recording
  // may be launched. It may be destroyed on any thread. On the thread of compute() only.
  virtual void keep(std::shared_ptr<const void> what) = 0;
  // For work on streams other than compute().
  virtual const std::shared_ptr<CudaDriver>& driver() const = 0;
  virtual CudaEventPool& events() = 0;
  // Memory written by such a stream before kernels of compute() may read it; once released, it is reused only when
  // nothing reads it any more.
  virtual Tensor arrival(DType dtype, const Shape& shape) = 0;
  // Reports an error from which CUDA does not recover: failure() returns it from now on.
  virtual void lost(const Error& error) = 0;

  // State that kernels keep as long as the device, like library handles and plans that are slow to find. One object per
  // type, made on first use. On the thread of compute() only.
  template <class T>
  T& state() {
    static constexpr char kKey = 0;
    std::shared_ptr<void>& kept = kept_[&kKey];
    if (!kept) kept = std::make_shared<T>(*this);
    return *static_cast<T*>(kept.get());
  }

 protected:
  // Called before the streams end.
  void forget_state() { kept_.clear(); }

 private:
  std::unordered_map<const void*, std::shared_ptr<void>> kept_;
};

// The parts of collectives: NCCL, and the kernel that sums the parts it delivers, launched on the given stream. Without
// NCCL the device has no collectives.
using SumParts = std::function<void(const PartsSum& sum, CudaStreamHandle stream)>;
struct CudaCollectives {
  std::shared_ptr<NcclDriver> nccl;
  SumParts sum;
  std::function<void()>
      load_sum;  // loaded before anything waits for other ranks: loading later may wait for all running work
};

std::unique_ptr<CudaDevice> make_cuda_device(std::shared_ptr<CudaDriver> driver, int ordinal,
                                             const AcceleratorOptions& options, AllocationLabelSource label,
                                             CudaCollectives collectives = {});

}  // namespace troupe
