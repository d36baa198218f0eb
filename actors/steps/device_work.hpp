// Work for a device: what ExecuteSegment carries. Counts itself in the record of the device's actor while it runs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <troupe/actors/base/actor_record.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/messages/local.hpp>

namespace troupe {

// Copies tensors of the device to the host; those that are there already, or are none, are handed back as they are.
// `done` is called once, with the first error if there was one, that of data which kernels found wrong included, when
// all that has been launched on the device has ended: at once on a CPU, else on a thread of the device. On the thread
// of Device::compute(), at the end of work.
void bring_out(Device& device, std::vector<Tensor> tensors, std::function<void(std::vector<Tensor>, Error)> done);

class DeviceWork : public LocalWork {
 public:
  // By the device actor, when it puts the work on the device's stream.
  void counted_in(std::shared_ptr<ActorRecord> record);
  void run() final;

 protected:
  // On the device's compute thread. Returns how many nodes of a plan it ran.
  virtual std::uint64_t execute() = 0;
  // Which step it is of, for the flight record.
  virtual MessageNote note() const { return {}; }
  // It is on the stream, and the task is traced.
  virtual void trace_begin(Trace&) {}
  // After it, when the device's actor has counted the work: what is to be told of it.
  virtual void report() {}

 private:
  std::shared_ptr<ActorRecord> record_;
};

}  // namespace troupe
