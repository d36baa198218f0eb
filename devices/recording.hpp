// Work of a device that is recorded once and run again with one launch (a CUDA graph): for kernels that are launched in
// the same way, on the same memory, in step after step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/devices/allocator.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

// All of one device together.
struct RecordingStats {
  std::uint64_t recordings = 0;  // made since the start
  std::uint64_t launches = 0;    // of them
  std::uint64_t refusals = 0;    // of work that could not be recorded, and runs as ever
  std::string last_refusal{};    // why; "": none
};

// Reads and writes the memory that it was recorded with.
class Recording {
 public:
  virtual ~Recording() = default;
  // On the thread of the device's compute(): runs after what has been launched so far, with the randomness of `random`.
  // If it throws, nothing runs.
  virtual void launch(const RandomKey& random) = 0;
};

// Makes recordings of one device, which share memory: what one leaves there another may read. All methods on the thread
// of the device's compute().
class WorkRecorder {
 public:
  virtual ~WorkRecorder() = default;
  // What recordings work on: theirs, and nobody else's, as long as a recording or the recorder lives.
  virtual Allocator& memory() = 0;
  // Between begin() and end() kernels that are launched are kept and do not run, Device::allocator() is memory(), and
  // what would have to wait for the device throws.
  virtual void begin() = 0;
  // Throws why what was launched cannot be recorded: it is dropped then.
  virtual std::shared_ptr<Recording> end() = 0;
  // Drops what was launched since begin().
  virtual void cancel() noexcept = 0;
  // Not between them: copies on the device, after what has been launched so far. Both have as many bytes.
  virtual void copy(const Tensor& source, Tensor& target) = 0;
  // For RecordingStats.
  virtual void refused(const std::string& why) = 0;
};

}  // namespace troupe
