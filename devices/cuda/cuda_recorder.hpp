// Recordings of a GPU: CUDA graphs. Kernels are captured on the recorder's own stream, so that events and copies on the
// device's streams continue, and launched on the device's compute stream.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/devices/caching_allocator.hpp>
#include <troupe/devices/cuda/cuda_driver.hpp>
#include <troupe/devices/plugin.hpp>
#include <troupe/devices/recording.hpp>

namespace troupe {

// Thread-safe.
class RecordingCounts {
 public:
  void recorded() { ++recordings_; }
  void launched() { ++launches_; }
  void refused(const std::string& why);
  RecordingStats read() const;

 private:
  std::atomic<std::uint64_t> recordings_{0}, launches_{0};
  mutable std::mutex mutex_;
  std::uint64_t refusals_ = 0;
  std::string last_refusal_;
};

class CudaRecorder;

// The device, as a recorder sees it.
class RecordingDevice {
 public:
  virtual CudaStreamHandle compute_stream() const = 0;
  virtual std::shared_ptr<RecordingCounts> counts() const = 0;
  // Sends later launches to the recorder; null: to the compute stream.
  virtual void record_with(CudaRecorder* recorder) = 0;
  // Copies `bytes` from host memory on the compute stream.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void launches_kernels_that_look() = 0;

 protected:
  ~RecordingDevice() = default;
};

class CudaRecorder final : public WorkRecorder {
 public:
  CudaRecorder(std::shared_ptr<CudaDriver> driver, int ordinal, RecordingDevice& device, Allocator& memory,
               AllocationLabelSource label);
  ~CudaRecorder() override;

  Allocator& memory() override { return memory_->allocator; }
  void begin() override;
  std::shared_ptr<Recording> end() override;
  void cancel() noexcept override;
  void copy(const Tensor& source, Tensor& target) override;
  void refused(const std::string& why) override { device_.counts()->refused(why); }

  // Called by the device between begin() and end().
  CudaStreamHandle stream() const { return stream_; }
  const RandomKey* random();
  void kernel_looks() { looks_ = true; }
  // Excludes the buffer from reuse: its content is the same in every run.
  void keep(BufferRef buffer) { memory_->kept.push_back(std::move(buffer)); }

 private:
  // Lives as long as the recorder and its recordings.
  struct Memory {
    Memory(Allocator& source, AllocationLabelSource label);
    CachingAllocator allocator;
    std::vector<BufferRef> kept;
    BufferRef random;
  };
  class Graph;

  const std::shared_ptr<CudaDriver> driver_;
  const int ordinal_;
  RecordingDevice& device_;
  std::shared_ptr<Memory> memory_;
  CudaStreamHandle stream_ = nullptr;
  bool draws_ = false;  // the recorded work draws random values
  bool looks_ = false;  // the recorded work checks its data
};

}  // namespace troupe
