// A signature's graph on one device of a cluster, which may be lost and come back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/batch_run.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {

class DeviceReplica {
 public:
  enum class Phase : std::uint8_t { waiting, building, ready };
  // Gets no error, or why the graph cannot be built on a device that is there. On a thread of the replica.
  using Built = std::function<void(const Error&)>;

  DeviceReplica(Task& task, const DeviceName& device, const BatchFunction& function, Built built);
  ~DeviceReplica();  // ends the session, and with it its steps
  DeviceReplica(const DeviceReplica&) = delete;
  DeviceReplica& operator=(const DeviceReplica&) = delete;

  // Forgets what was there, waits for the device's task for as long as it takes, and builds the graph there. Returns at
  // once; `built` is called once.
  void build();
  Phase phase() const { return phase_; }
  const DeviceName& device() const { return device_; }

  // Once it is built, by the thread that has called build().
  void start(std::vector<Tensor> feeds, const RunOptions& options, std::function<void(StepResult)> done) const {
    call_.start(std::move(feeds), options, std::move(done));
  }
  // Whether an error of building or of a step means that the device is lost: the link over which it was built is gone,
  // or its task is about to end, which it says before the link does. Else it is the graph's or the batch's own.
  bool lost(const Error& error) const;

 private:
  void run();
  void make_session();
  void end_session();

  Task& task_;
  const DeviceName device_;
  const BatchFunction& function_;
  const Built built_;
  const bool own_;  // a device of this very task, which is never lost
  std::atomic<Phase> phase_ = Phase::waiting;
  std::atomic<std::uint64_t> link_ = 0;
  std::mutex mutex_;  // guards the two below
  std::condition_variable ended_;
  bool ending_ = false;
  std::optional<Session> session_;
  Callable call_;
  std::thread thread_;
};

}  // namespace troupe
