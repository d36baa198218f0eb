// Tasks without threads, sockets or time: their actors run one message after the other under CAF's testing scheduler,
// and links between them hand frames from peer to peer.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "messages/proto/run.pb.h"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/cluster/node_actor.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe::testing {

inline const TaskName kClient{"worker", 0};
inline const TaskName kOther{"worker", 1};
inline constexpr SessionId kSession{11};

// A CPU whose compute stream is worked off by the test.
class HeldDevice final : public Device, private Stream {
 public:
  explicit HeldDevice(const DeviceName& name);
  // Runs what is queued; returns how much that was.
  std::size_t work();
  bool hold = false;  // else work runs as it is enqueued
  Error broken;       // if set, thrown by whoever enqueues

  const DeviceAttributes& attributes() const override { return cpu_->attributes(); }
  Allocator& allocator() override { return cpu_->allocator(); }
  Stream& compute() override { return *this; }
  Parallelism& parallelism() override { return cpu_->parallelism(); }
  void copy_to_host(Tensor source, CopyDone done) override { done(std::move(source), {}); }
  void copy_in(Tensor source, CopyDone done) override { done(std::move(source), {}); }
  void shutdown() override { cpu_->shutdown(); }

 private:
  void enqueue(LocalHandle work) override;
  std::shared_ptr<Event> record() override { return cpu_->compute().record(); }
  void wait(const std::shared_ptr<Event>&) override {}

  std::unique_ptr<Device> cpu_;
  std::deque<LocalHandle> queue_;
};

// An actor system with the testing scheduler.
class SteppedSystem {
 public:
  SteppedSystem();
  // Runs all actors until none has a message.
  void run();
  // Time passes until the next delayed message is due, and all that follows from it.
  void run_next_timeout();
  bool has_timeout() { return scheduler().has_pending_timeout(); }
  std::vector<std::string> alive() const { return registry.await_end(std::chrono::nanoseconds(0)); }
  // Messages that the actor of this kind and name has sent.
  std::uint64_t sent_by(const std::string& kind, const std::string& name) const;

  ActorRegistry registry;

 private:
  caf::scheduler::test_coordinator& scheduler();
  caf::actor_system_config config_;

 public:
  std::unique_ptr<caf::actor_system> caf;
};

struct StepTask {
  TaskName name;
  std::vector<std::shared_ptr<HeldDevice>> devices;
  LocalDevices local_devices;
  SchedulerActor scheduler;
  RendezvousActor rendezvous;
  CollectiveActor collective;
  LocalNodeActor node;
  std::vector<DeviceActor> device_actors;
  std::map<TaskName, PeerActor> peers;
};

struct SentFrame {
  TaskName from;
  TaskName to;
  Frame frame;
};

// A few tasks, all linked.
class StepCluster {
 public:
  explicit StepCluster(const std::vector<TaskName>& names, int devices = 1);
  // Stops everything; the system's destructor then finds no actor alive.
  ~StepCluster();

  StepTask& task(const TaskName& name) { return *tasks.at(name); }
  HeldDevice& device(const TaskName& name, std::size_t index = 0) { return *task(name).devices.at(index); }
  // Compiles a call of `client` and registers it with every task that has a part in it.
  // `change`: what becomes of a task's part before it is registered.
  using Change = std::function<void(const TaskName&, proto::RegisterGraph&)>;
  void register_call(const TaskName& client, SessionId session, GraphId id, const Graph& graph, const Outputs& feeds,
                     const Outputs& fetches, const Change& change = nullptr);
  Reply close(const TaskName& on, SessionId session);
  // Both ends notice that their link is lost.
  void cut(const TaskName& a, const TaskName& b);
  // A frame comes from a task, as if that had sent it.
  void deliver(const TaskName& from, const TaskName& to, Frame frame);
  template <class F>
  std::vector<F> sent(const TaskName& from, const TaskName& to) const {
    std::vector<F> out;
    for (const SentFrame& s : frames)
      if (const F* f = std::get_if<F>(&s.frame); f && s.from == from && s.to == to) out.push_back(*f);
    return out;
  }

  // A step's answer, once there is one. `run` also lets all actors run.
  using Answer = std::shared_ptr<std::vector<StepResult>>;
  Answer send_step(const TaskName& client, SessionId session, GraphId graph, StepId step, std::vector<Tensor> feeds,
                   std::int64_t deadline_ns = 0);
  Answer run(const TaskName& client, SessionId session, GraphId graph, StepId step, std::vector<Tensor> feeds,
             std::int64_t deadline_ns = 0) {
    Answer answer = send_step(client, session, graph, step, std::move(feeds), deadline_ns);
    system.run();
    return answer;
  }

  KernelRegistry kernels;
  std::set<TaskName> without_memory;  // for results of collectives
  std::vector<SentFrame> frames;
  std::map<TaskName, std::unique_ptr<StepTask>> tasks;
  SteppedSystem system;

 private:
  void link(StepTask& a, const TaskName& b);
  Reply request(const TaskName& on, caf::message message);
  TaskName asks;  // whoever registers graphs: all tasks are of one system of CAF
};

}  // namespace troupe::testing
