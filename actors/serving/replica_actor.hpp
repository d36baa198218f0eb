// Tells routers what a server has, and answers the requests that they send on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/serving/replica.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>
#include <troupe/actors/serving/traced_requests.hpp>

namespace troupe {

// Requests of routers that have begun. Thread-safe.
class ReplicaCalls {
 public:
  using Name = std::pair<TaskName, std::uint64_t>;  // the router, and its number of the request
  // Before the request is started, whose end may come first.
  void begin(const Name& name);
  void started(const Name& name, std::shared_ptr<ServingCall> call);
  void end(const Name& name);
  void cancel(const Name& name);
  void cancel_all_of(const TaskName& router);
  // Cancels all; the routers hear that they were not answered, and send them to others.
  void end_all();
  bool ending() const { return ending_; }

  // Of routers that are there; the last that goes wakes await_alone().
  void set_routers(std::size_t routers);
  // False: not by then.
  bool await_alone(std::chrono::nanoseconds timeout);
  bool await_idle(std::chrono::nanoseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Name, std::shared_ptr<ServingCall>> calls_;
  std::size_t routers_ = 0;
  std::atomic<bool> ending_{false};
};

// Decides whose configuration the server has: its program's, until a router sends one; of two routers the newer.
// Passes on what `change` throws; then nothing has changed. Thread-safe.
class ReplicaChanges {
 public:
  // False, and not called: a router has configured the server.
  bool own(const std::function<void()>& change);
  // False, and not called: it has this one, or a newer one.
  bool of_router(const ModelConfiguration& configuration, const std::function<void()>& change);
  // The last of a router.
  ModelConfiguration configuration() const;

 private:
  mutable std::mutex mutex_;
  ModelConfiguration configuration_;
};

class ReplicaActorImpl final : public Counted<ReplicaActor> {
 public:
  // The server outlives the actor.
  ReplicaActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, ModelServer& server,
                   std::shared_ptr<ReplicaCalls> calls, std::shared_ptr<ReplicaChanges> changes,
                   Replica::Complete complete)
      : Counted(config, std::move(record)),
        server_(server),
        calls_(std::move(calls)),
        changes_(std::move(changes)),
        complete_(std::move(complete)) {}
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void ask(const TaskName& router, AskModel ask);
  void configure(const TaskName& router, const ConfigureModels& asked);
  void tell_models(const PeerActor& router);
  void tell_routers();  // if anything has changed

  ModelServer& server_;
  const std::shared_ptr<ReplicaCalls> calls_;
  const std::shared_ptr<ReplicaChanges> changes_;
  const Replica::Complete complete_;
  const TracedDoor traced_{&record().registry.trace(), "requests of routers"};
  bool draining_ = false;
  std::map<TaskName, PeerActor> routers_;
  std::string told_;  // the last state
};

}  // namespace troupe
