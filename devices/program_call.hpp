// The device on whose thread the program's own code runs now, called by a kernel: what that code asks of the device
// cannot wait for it.
#pragma once

#include <utility>

namespace troupe {

class Device;

// Lives while a kernel calls code of the program.
class ProgramCall {
 public:
  explicit ProgramCall(const Device& device) : outer_(std::exchange(device_, &device)) {}
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
  ~ProgramCall() { device_ = outer_; }

  // Whether this thread runs such code, for the device or for any.
  static bool is_of(const Device& device) { return device_ == &device; }
  static bool any() { return device_ != nullptr; }

 private:
  const Device* const outer_;
  static inline constinit thread_local const Device* device_ = nullptr;
};

}  // namespace troupe
