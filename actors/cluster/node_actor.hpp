// The node of a task: its directory of peers, and requests from other tasks. Sessions of any client register their
// graphs here; the node compiles the partitions and passes them to the scheduler.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "messages/proto/run.pb.h"
#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/steps/step.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/op.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

// A task's name and, with `token`, its proof of membership in the cluster. A task without a cluster has a private
// token.
struct TaskIdentity {
  TaskName task;
  std::string cluster;
  std::string token;
  Incarnation incarnation;
};

struct NodeJoin final : LocalWork {
  TaskIdentity identity;
  std::string welcome;  // this task's, serialized
  // The task at the other end of the link to this CAF node; none if the link is gone.
  std::function<std::optional<TaskName>(const caf::node_id&)> task_of;
  // Called on the node's thread when a peer's node has said hello. Throws data_loss.
  std::function<void(const TaskName&, NodeActor, const std::string& welcome)> met;
};

class NodeActorImpl final : public Counted<LocalNodeActor> {
 public:
  struct Config {
    TaskIdentity identity;                    // without a cluster until JoinCluster
    const LocalDevices* devices = nullptr;    // outlives the actor
    const OpRegistry* ops = &standard_ops();  // must outlive the actor
    const KernelRegistry* kernels = nullptr;  // must outlive the actor
    ActorRegistry* registry = nullptr;        // must outlive the actor
    SchedulerActor scheduler;
  };
  NodeActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config settings)
      : Counted(config, std::move(record)), config_(std::move(settings)) {}
  behavior_type make_behavior() override;
  using Counted::enqueue;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;

 private:
  using Variables = std::map<std::string, std::shared_ptr<VariableStore>>;  // by device
  struct SessionState {
    TaskName client;
    std::string container;                 // "": none
    std::shared_ptr<VariableStore> given;  // null: none
    Variables variables;
    std::multimap<GraphId, PartitionActor> partitions;
  };
  struct Registration;

  void peer_down(const TaskName& task, const Error& reason, bool left = false);
  // The sender of the current message, possibly this task. Throws unavailable if its link is lost.
  TaskName sender();
  void asked(const Asked& message);
  Reply hello(const HelloRequest& request, const caf::strong_actor_ptr& asker);
  caf::result<Reply> register_graph(const RegisterGraphRequest& request);
  caf::result<Reply> close_session(const CloseSessionRequest& request);
  std::shared_ptr<VariableStore> variables_of(SessionState& session, const std::string& device);
  void end_session(SessionId session);
  void end_sessions_of(const TaskName& client);
  std::shared_ptr<GraphHandle> make_handle(const proto::RegisterGraph& body) const;
  void drop_graph(const DropGraph& message);
  // `tensors`: those that the partition's graph counts.
  PartitionActor spawn_partition(SessionId session, GraphId graph, const proto::Partition& partition,
                                 std::span<const Tensor> tensors);
  void built(const std::shared_ptr<Registration>& registration, std::size_t index, const Built& result);
  void hand_over(const std::shared_ptr<Registration>& registration);

  Config config_;
  std::shared_ptr<const NodeJoin> join_;
  std::map<SessionId, SessionState> sessions_;
  std::map<std::string, Variables> containers_;
  std::set<SessionId> closed_;
  struct Peer {
    PeerActor actor;
    Incarnation incarnation;
  };
  std::map<TaskName, Peer> peers_;
  std::vector<PeerObserver> observers_;
  JobRoutes routes_;
  ServingRoutes serving_;
};

// A task's description of its devices, exchanged when peers meet (proto::Welcome, serialized). `introspector`:
// "HOST:PORT"; "" if it has none.
std::string make_welcome(const TaskIdentity& identity, const std::string& introspector,
                         const std::vector<LocalDevice>& devices, const KernelRegistry& kernels);

TaskName parse_task_name(const std::string& text);  // "/job:worker/task:0"; throws invalid_argument

}  // namespace troupe
