// Work for a device, carried by ExecuteSegment. Counts itself in the record of the device's actor while running.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/base/actor_record.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/local.hpp>
#include <troupe/scheduler/run/executor.hpp>

namespace troupe {

// Copies device tensors to the host; returns host tensors and invalid ones unchanged. Calls `done` once all work
// launched on the device has ended, with the first error if any, including invalid data found by kernels: immediately
// on a CPU, otherwise on a thread of the device. Call on the thread of Device::compute(), at the end of the work.
void bring_out(Device& device, std::vector<Tensor> tensors, std::function<void(std::vector<Tensor>, Error)> done);

// Lets a loop pause once work of other sessions has waited for its device for kShare: two loops then lose little time
// to taking turns, and nobody waits for one much longer than that.
class SharedDevice final : public Pauses {
 public:
  // `session` owns the work (LocalWork::owner).
  SharedDevice(Device& device, SessionId session) : stream_(device.compute()), owner_(session.value) {}
  bool wanted() override;

 private:
  static constexpr std::chrono::microseconds kShare{250};

  Stream& stream_;
  std::uint64_t owner_;
  std::optional<std::chrono::steady_clock::time_point> since_{};  // somebody waits
};

class DeviceWork : public LocalWork {
 public:
  // Called by the device actor when it enqueues the work on the device's stream.
  void counted_in(std::shared_ptr<ActorRecord> record);
  void run() final;

  // The thread that sends the work will run it, if the device lends it its stream: set before sending, read after.
  struct Borrowing {
    bool wanted = false, granted = false;
  } borrowing;

 protected:
  // Runs on the device's compute thread. Returns the number of plan nodes run. If the work has paused (LocalWork), it
  // is called again.
  virtual std::uint64_t execute() = 0;
  // The step of the work, for the flight record.
  virtual MessageNote note() const { return {}; }
  // Called once the work is on the stream, if the task is traced.
  virtual void trace_begin(Trace&) {}
  // Called after the work has been counted for the device's actor: sends its reports.
  virtual void report() {}

 private:
  std::shared_ptr<ActorRecord> record_;
};

}  // namespace troupe
