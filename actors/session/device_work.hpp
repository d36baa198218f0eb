// Work for a device: what ExecuteSegment carries. Counts itself in the record of the device's actor while it runs.
#pragma once

#include <memory>

#include "actors/introspection/actor_record.hpp"
#include "messages/local.hpp"

namespace troupe {

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
