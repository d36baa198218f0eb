// Work of a device that is recorded once and rerun with one launch (a CUDA graph): for kernels launched in the same
// way, on the same memory, in every step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/devices/allocator.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

// Totals of one device.
struct RecordingStats {
  std::uint64_t recordings = 0;  // made since start
  std::uint64_t launches = 0;    // of recordings
  std::uint64_t refusals = 0;    // work that could not be recorded and runs unrecorded
  std::string last_refusal{};    // its reason; "": none
};

// Reads and writes the memory that it was recorded with.
class Recording {
 public:
  virtual ~Recording() = default;
  // On the thread of the device's compute(): runs after all work launched so far, with the randomness of `random`. If
  // it throws, nothing runs.
  virtual void launch(const RandomKey& random) = 0;
};

// Makes recordings of one device, which share memory: later recordings may read what earlier ones wrote. All methods on
// the thread of the device's compute().
class WorkRecorder {
 public:
  virtual ~WorkRecorder() = default;
  // Memory used by recordings only, as long as a recording or the recorder lives.
  virtual Allocator& memory() = 0;
  // Between begin() and end() launched kernels are recorded and do not run, Device::allocator() is memory(), and
  // operations that would wait for the device throw.
  virtual void begin() = 0;
  // Throws why the launched work cannot be recorded, and drops it.
  virtual std::shared_ptr<Recording> end() = 0;
  // Drops work launched since begin().
  virtual void cancel() noexcept = 0;
  // Copies on the device, after all work launched so far. Not between begin() and end(). Sizes must be equal.
  virtual void copy(const Tensor& source, Tensor& target) = 0;
  // Counted in RecordingStats.
  virtual void refused(const std::string& why) = 0;
};

}  // namespace troupe
