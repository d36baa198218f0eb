// The node of a task: its directory, and what other tasks may ask of it. Sessions of any client register their graphs
// here; it compiles the partitions and hands them to the scheduler.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "actors/introspection/counted.hpp"
#include "actors/session/step.hpp"
#include "actors/wire/handshake.hpp"
#include "devices/kernel.hpp"
#include "graph/op.hpp"
#include "messages/proto/run.pb.h"
#include "messages/protocol.hpp"

namespace troupe {

// Who a task is. `token` proves that a peer belongs to the cluster. A task without a cluster has none, and a token that
// nobody else knows.
struct TaskIdentity {
  TaskName task;
  std::string cluster;
  std::string token;
  Incarnation incarnation;
};

struct NodeJoin final : LocalWork {
  TaskIdentity identity;
  std::string welcome;                          // this task's, serialized
  std::function<Error(const TaskName&)> admit;  // may a task have this name?
  // A peer said hello and was accepted; called on the node's thread.
  std::function<void(const TaskName&, NodeActor, const std::string& welcome)> met;
  // A peer said hello and was turned away; likewise.
  std::function<void(const Error& why)> refused;
};

class NodeActorImpl final : public Counted<LocalNodeActor> {
 public:
  struct Config {
    TaskIdentity identity;  // without a cluster until JoinCluster
    std::vector<LocalDevice> devices;
    const OpRegistry* ops = &standard_ops();  // outlives the actor
    const KernelRegistry* kernels = nullptr;  // likewise
    ActorRegistry* registry = nullptr;        // likewise
    SchedulerActor scheduler;
    IntrospectorActor introspector;
  };
  NodeActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config settings)
      : Counted(config, std::move(record)),
        config_(std::move(settings)),
        introspector_(caf::actor_cast<caf::strong_actor_ptr>(config_.introspector)) {}
  behavior_type make_behavior() override;
  using Counted::enqueue;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;

 private:
  struct SessionState {
    TaskName client;
    std::map<std::string, std::shared_ptr<VariableStore>> variables;  // by device
    std::vector<PartitionActor> partitions;
  };
  struct Registration;

  struct EarlyHello {
    HelloRequest request;
    caf::strong_actor_ptr asker;
    caf::typed_response_promise<Reply> promise;
  };
  void peer_down(const TaskName& task, const Error& reason, bool left = false);
  // Unauthenticated if the token is not that of the cluster.
  Error refuse(const std::string& token) const;
  caf::result<Reply> hello(const HelloRequest& request, const caf::strong_actor_ptr& asker);
  Reply answer(const HelloRequest& request, const caf::strong_actor_ptr& asker) const;
  caf::result<Reply> register_graph(const RegisterGraphRequest& request);
  caf::result<Reply> close_session(const CloseSessionRequest& request);
  void end_session(SessionId session);
  void end_sessions_of(const TaskName& client);
  std::shared_ptr<GraphHandle> make_handle(const proto::RegisterGraph& body) const;
  PartitionActor spawn_partition(SessionId session, const proto::Partition& partition);
  void built(const std::shared_ptr<Registration>& registration, std::size_t index, const Built& result);
  void hand_over(const std::shared_ptr<Registration>& registration);

  Config config_;
  const caf::strong_actor_ptr introspector_;  // read by enqueue(), on any thread
  std::optional<wire::Handshake> handshake_;  // once joined
  std::shared_ptr<const NodeJoin> join_;
  std::vector<EarlyHello> early_hellos_;
  std::map<SessionId, SessionState> sessions_;
  std::set<SessionId> closed_;
  struct Peer {
    PeerActor actor;
    Incarnation incarnation;
  };
  std::map<TaskName, Peer> peers_;
  std::vector<PeerObserver> observers_;
  JobRoutes routes_;
};

// What a task says of its devices when peers meet (proto::Welcome, serialized).
// `introspector`: "HOST:PORT"; "": it has none.
std::string make_welcome(const TaskIdentity& identity, std::uint16_t data_port, const std::string& introspector,
                         const std::vector<LocalDevice>& devices, const KernelRegistry& kernels);

TaskName parse_task_name(const std::string& text);  // "/job:worker/task:0"; throws invalid_argument

}  // namespace troupe
