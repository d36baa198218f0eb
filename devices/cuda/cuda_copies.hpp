// Copies of tensors to the host, from the host and from other GPUs, each on its own stream, so that they overlap with
// kernels.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <troupe/devices/cuda/cuda_events.hpp>
#include <troupe/devices/cuda/cuda_faults.hpp>
#include <troupe/devices/cuda/retired_buffers.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/devices/work_thread.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// The GPU, as its copies see it.
class CopyingDevice {
 public:
  virtual Error failure() const = 0;
  virtual void lost(const Error& error) = 0;
  virtual Tensor arrival(DType dtype, const Shape& shape) = 0;
  // Collects faults of the kernels launched so far; null on threads other than the launching one.
  virtual CudaFaults::Look look_for_faults() = 0;

 protected:
  ~CopyingDevice() = default;
};

class CudaCopies {
 public:
  using Done = Device::CopyDone;

  struct Parts {
    CopyingDevice& device;
    std::shared_ptr<CudaDriver> driver;
    int ordinal = 0;
    std::string device_name;  // for messages
    CudaEventPool& events;
    CudaStream& compute;
    Allocator& pinned;
    CudaFaults& faults;
    std::shared_ptr<RetiredBuffers> retired;
    std::function<void(const char* name)> begin_thread;  // called first on the copy thread
    std::function<std::string(const char* suffix)> stream_name;
  };
  explicit CudaCopies(Parts parts);

  // These behave like the functions of Device with the same names.
  void copy_to_host(Tensor source, const Done& done);
  void copy_in(Tensor source, Done done);
  void hand_over(const Tensor& source, const Done& done);

  // Readable by kernels launched later. upload and read run on the launching thread and throw the error of a lost
  // device.
  Tensor upload(const Tensor& source);
  // Waits for the compute stream. Throws faults of earlier kernels.
  Tensor read(const Tensor& source);

  void stop_thread() { copier_.stop(); }
  void stop_streams();

 private:
  template <class Copy>
  void guarded(const Done& done, Copy copy);
  void copy_on(CudaStream& stream, Tensor& to, const Tensor& from);
  void when_copied(CudaStream& stream, Tensor source, Tensor copy, CudaFaults::Look look, const Done& done);
  void hand(Tensor tensor, const CudaFaults::Look& look, const Done& done) const;
  Tensor pinned(const Tensor& source);
  void throw_if_lost() const;

  const Parts parts_;
  CudaStream to_host_, from_host_, from_peers_;
  WorkThread copier_;
};

}  // namespace troupe
