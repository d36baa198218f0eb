// Takes snapshots of a task without asking its actors: reads their records, and inspects the actors that allow it.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/base/client_record.hpp>
#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/base/training_record.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

// Thread-safe. The objects passed to it must outlive it.
class Introspector {
 public:
  struct Config {
    TaskName task;
    const ActorRegistry& registry;
    const TrainingRecord& training;
    const ClientRecord& client;
    std::function<std::vector<std::shared_ptr<Device>>()> devices;
    std::function<Error()> failure;  // of the task
    // The links to other tasks, and waits for links; null before the task joins a cluster.
    std::function<std::vector<LinkSnapshot>()> links;
    std::function<Waiting()> meeting;
  };
  explicit Introspector(Config config);

  // Call when the task has joined a cluster.
  void joined(std::string cluster, Incarnation incarnation);
  // Shows a log of requests, too; null: no more, and once this returns no call of `show` goes on.
  void set_request_log(std::function<RequestLogSnapshot()> show);

  std::string task() const { return config_.task.to_string(); }
  TaskSnapshot snapshot() const;
  // The failure of the task, or of its first lost device; "" if none. Waits for no actor.
  std::string failure() const;
  std::int64_t uptime_ns() const { return steady_now_ns() - began_ns_; }
  // The last messages of each actor, oldest first, and the task's waits; as text.
  std::string flight_record() const;

 private:
  ActorSnapshot look_at(const ActorRecord& record, ActorDetails& details) const;
  DeviceSnapshot look_at(Device& device) const;

  const Config config_;
  const std::int64_t began_ns_;
  mutable std::mutex mutex_;
  std::string cluster_;
  Incarnation incarnation_;
  std::function<RequestLogSnapshot()> show_request_log_;
};

// Merges equal buffers into one entry with a count; largest first, at most `most` entries.
std::vector<TensorUse> tensors_of(const std::vector<LiveBuffer>& buffers, std::size_t most);

}  // namespace troupe
