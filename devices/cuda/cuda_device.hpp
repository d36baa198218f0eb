// A GPU as a device. One thread of the host launches kernels on the GPU's compute stream; copies from and to the host
// and other GPUs have streams of their own, so that they go on beside kernels. Events become callbacks on a thread that
// waits for them.
//
// Memory is ordered by the compute stream: a buffer that is let go while the kernels that use it have not run yet is
// given to kernels launched later only.
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
  // Where kernels are launched: a cudaStream_t. On the thread of compute() only.
  virtual CudaStreamHandle stream() const = 0;
  virtual const CudaProperties& properties() const = 0;
  virtual const AcceleratorOptions& options() const = 0;
  virtual int ordinal() const = 0;

  // Throws while what is launched is recorded: for what must not be part of it, such as to look for a plan. On the
  // thread of compute() only.
  virtual void not_recorded(std::string_view what) const = 0;
  // The step's randomness where kernels that are recorded read it when they run; null while nothing is recorded: then
  // it is the arguments'. On the thread of compute() only.
  virtual const RandomKey* recorded_random() = 0;
  // For arguments of a kernel that looks at its data: what it finds fails the step (cuda_faults.hpp). On the thread of
  // compute() only.
  virtual CudaFaultSite fault_site(CudaFaultText text) = 0;
  // For those of a kernel that changes what outlives the step: it must not, once something was found. On the same
  // thread.
  virtual const CudaFault* fault() = 0;
  // What kernels use that are launched from here on: it lives until they have run, and if they are recorded, as long as
  // that may be launched. It may end on any thread. On the thread of compute() only.
  virtual void keep(std::shared_ptr<const void> what) = 0;
  // For what runs on other streams than compute().
  virtual const std::shared_ptr<CudaDriver>& driver() const = 0;
  virtual CudaEventPool& events() = 0;
  // Memory that such a stream writes before kernels of compute() may read it; whenever it is let go, it comes back only
  // when nobody reads it.
  virtual Tensor arrival(DType dtype, const Shape& shape) = 0;
  // After an error from which CUDA does not recover: failure() says so from now on.
  virtual void lost(const Error& error) = 0;

  // What kernels keep as long as the device: handles of libraries, plans that took time to find. One of each type, made
  // when first asked for. On the thread of compute() only.
  template <class T>
  T& state() {
    static constexpr char kKey = 0;
    std::shared_ptr<void>& kept = kept_[&kKey];
    if (!kept) kept = std::make_shared<T>(*this);
    return *static_cast<T*>(kept.get());
  }

 protected:
  // Before the streams end.
  void forget_state() { kept_.clear(); }

 private:
  std::unordered_map<const void*, std::shared_ptr<void>> kept_;
};

// What collectives are made of: NCCL, and the kernel that adds up what it brings, put behind what a stream has been
// given. Without NCCL the device has none.
using SumParts = std::function<void(const PartsSum& sum, CudaStreamHandle stream)>;
struct CudaCollectives {
  std::shared_ptr<NcclDriver> nccl;
  SumParts sum;
  std::function<void()>
      load_sum;  // before anything waits for other ranks: what is loaded late may wait for all that runs
};

std::unique_ptr<CudaDevice> make_cuda_device(std::shared_ptr<CudaDriver> driver, int ordinal,
                                             const AcceleratorOptions& options, AllocationLabelSource label,
                                             CudaCollectives collectives = {});

}  // namespace troupe
