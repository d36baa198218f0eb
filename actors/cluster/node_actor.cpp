#include "troupe/actors/cluster/node_actor.hpp"

#include <algorithm>
#include <charconv>

#include "messages/proto/cluster.pb.h"
#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/steps/partition_actor.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/messages/codec.hpp>

namespace troupe {
namespace {

constexpr std::size_t kClosed = 4096;  // closed sessions remembered, to recognise late requests

std::unique_ptr<Graph> read_graph(const proto::Graph& graph, const NodeActorImpl::Config& config,
                                  std::span<const Tensor> tensors) {
  try {
    return from_proto(graph, *config.ops, tensors);
  } catch (const Error& error) {
    throw error.within(config.identity.task.to_string());
  }
}

}  // namespace

// A graph whose partitions are being compiled.
struct NodeActorImpl::Registration {
  std::shared_ptr<GraphHandle> handle;
  std::size_t left = 0;
  Error error;
  caf::typed_response_promise<Reply> promise;
};

NodeActorImpl::behavior_type NodeActorImpl::make_behavior() {
  // Forgets observers that have ended, for example a shard after its job.
  set_down_handler([this](const caf::down_msg& down) {
    std::erase_if(observers_, [&](const PeerObserver& o) { return o.address() == down.source; });
  });
  return {
      [this](const HelloRequest& request, const caf::strong_actor_ptr& asker) { return hello(request, asker); },
      [this](const RegisterGraphRequest& request) { return register_graph(request); },
      [this](const CloseSessionRequest& request) { return close_session(request); },
      [this](const ResetContainerRequest& request) {
        containers_.erase(request.container);
        return Reply{};
      },
      [this](const PeerUp& message) {
        peer_down(message.task,
                  Error(Code::unavailable, "it has reconnected"));  // if the end of its last link is not known yet
        peers_[message.task] = {message.peer, message.incarnation};
        for (const auto& observer : observers_) tell(observer, message);
        tell(message.peer, serving_);
        tell(message.peer, routes_);  // from now on the peer delivers frames
      },
      [this](const PeerLost& message) {
        const auto peer = peers_.find(message.task);
        if (peer != peers_.end() && peer->second.actor == message.peer)
          peer_down(message.task, message.reason, message.left);
      },
      [this](const Observe& message) {
        observers_.push_back(message.observer);
        monitor(message.observer);
        for (const auto& [task, peer] : peers_) tell(message.observer, PeerUp{task, peer.actor, peer.incarnation});
      },
      [](const SyncObservers&) { return Reply{}; },
      [this](const DropGraph& message) { drop_graph(message); },
      [this](const JoinCluster& message) {
        join_ = std::static_pointer_cast<const NodeJoin>(message.work);
        config_.identity = join_->identity;
      },
      [this](const Asked& message) { asked(message); },
      [this](const JobRoutes& routes) {
        routes_ = routes;
        // Notify the job's actors first: frames from their peers then reach them after the routes and all peer news.
        if (routes.shard) tell(routes.shard, routes);
        if (routes.coordinator) tell(routes.coordinator, routes);
        for (const auto& [task, peer] : peers_) tell(peer.actor, routes_);
      },
      [this](const ServingRoutes& routes) {
        serving_ = routes;
        for (const auto& [task, peer] : peers_) tell(peer.actor, serving_);
      },
      [this](const PeerSuspected& message) {
        if (routes_.coordinator) tell(routes_.coordinator, message);
      },
      [this](const Stop&) {
        for (auto& [id, session] : sessions_)
          for (const auto& [graph, partition] : session.partitions) tell(partition, Stop{});
        for (const auto& [task, peer] : peers_) tell(peer.actor, Stop{});
        sessions_.clear();
        containers_.clear();
        peers_.clear();
        observers_.clear();
        routes_ = JobRoutes{};
        serving_ = ServingRoutes{};
        config_ = Config{};
        join_ = nullptr;
        quit();
      },
  };
}

void NodeActorImpl::peer_down(const TaskName& task, const Error& reason, bool left) {
  if (peers_.erase(task) == 0) return;
  for (const auto& observer : observers_) tell(observer, PeerDown{task, reason, left});
  end_sessions_of(task);
}

// CAF delivers exit messages from anybody with the handle. The node ends only on Stop, which no network carries.
void NodeActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  if (element->content().match_elements<caf::exit_msg>()) return;
  Counted::enqueue(std::move(element), host);
}

TaskName NodeActorImpl::sender() {
  const caf::strong_actor_ptr& from = current_sender();
  if (from && join_)
    if (const std::optional<TaskName> task = join_->task_of(from->node())) return *task;
  if (from && from->node() != node()) fail(Code::unavailable, "lost the link to the calling task");
  return config_.identity.task;
}

Reply NodeActorImpl::hello(const HelloRequest& request, const caf::strong_actor_ptr& asker) {
  try {
    if (!join_ || !asker) fail(Code::failed_precondition, "hello received by a task without a cluster");
    join_->met(sender(), caf::actor_cast<NodeActor>(asker), request.welcome);
    return Reply::of(join_->welcome);
  } catch (...) {
    return Reply::of(current_error());
  }
}

// "provenance N"
void NodeActorImpl::asked(const Asked& message) {
  std::uint64_t version = 0;
  const char* const end = message.text.data() + message.text.size();
  const auto [last, code] = std::from_chars(message.text.data() + message.text.find(' ') + 1, end, version);
  if (code != std::errc() || last != end)
    return message.answer->give(Reply::of(Error(Code::invalid_argument, "the version must be a number")));
  if (!routes_.shard)
    return message.answer->give(Reply::of(Error(
        Code::failed_precondition, config_.identity.task.to_string() + " currently has no shard of a training job")));
  this->request(routes_.shard, caf::infinite, ProvenanceRequest{version})
      .then([answer = message.answer](const Reply& reply) { answer->give(reply); },
            [this, answer = message.answer](const caf::error& error) {
              answer->give(Reply::of(Error(Code::cancelled, system().render(error))));
            });
}

std::shared_ptr<GraphHandle> NodeActorImpl::make_handle(const proto::RegisterGraph& body) const {
  auto handle = std::make_shared<GraphHandle>();
  handle->session = SessionId{body.session()};
  handle->graph = GraphId{body.graph()};
  handle->client = parse_task_name(body.client());
  const std::string own = config_.identity.task.to_string();
  for (const proto::Edge& edge : body.edge())
    if (edge.from_task() == own && edge.to_task() != own)
      handle->edge_targets[edge.id()] = parse_task_name(edge.to_task());
  for (const std::string& task : body.participant()) handle->participants.push_back(parse_task_name(task));
  for (const std::string& task : body.shard()) handle->shards.push_back(parse_task_name(task));
  return handle;
}

PartitionActor NodeActorImpl::spawn_partition(SessionId session, GraphId graph, const proto::Partition& partition,
                                              std::span<const Tensor> tensors) {
  const std::optional<LocalDevice> device = config_.devices->find(partition.device());
  if (!device) fail(Code::not_found, "task {} has no device {}", config_.identity.task.to_string(), partition.device());
  SessionState& state = sessions_.at(session);
  PartitionActorImpl::Source source{read_graph(partition.graph(), config_, tensors), *device,
                                    variables_of(state, partition.device()), config_.kernels};
  auto actor = spawn_actor<ActorKind::partition, PartitionActorImpl>(system(), *config_.registry, partition.device(),
                                                                     std::move(source));
  state.partitions.emplace(graph, actor);
  return actor;
}

// A session keeps the variables that it has found, also if its container is reset.
std::shared_ptr<VariableStore> NodeActorImpl::variables_of(SessionState& session, const std::string& device) {
  std::shared_ptr<VariableStore>& own = session.variables[device];
  if (own) return own;
  if (session.given) return own = session.given;
  if (session.container.empty()) return own = std::make_shared<VariableStore>();
  std::shared_ptr<VariableStore>& shared = containers_[session.container][device];
  if (!shared) shared = std::make_shared<VariableStore>();
  return own = shared;
}

caf::result<Reply> NodeActorImpl::register_graph(const RegisterGraphRequest& request) {
  auto registration = std::make_shared<Registration>();
  std::vector<PartitionActor> actors;
  try {
    proto::RegisterGraph body;
    if (!body.ParseFromString(request.body)) fail(Code::data_loss, "the request to register a graph is malformed");
    if (closed_.contains(SessionId{body.session()})) fail(Code::failed_precondition, "the session is closed");
    registration->handle = make_handle(body);
    if (registration->handle->client != sender())
      fail(Code::permission_denied, "{} may not register a graph for {}", sender().to_string(),
           registration->handle->client.to_string());
    SessionState& session =
        sessions_
            .try_emplace(
                registration->handle->session,
                SessionState{
                    sender(), body.container(), std::static_pointer_cast<VariableStore>(request.variables), {}, {}})
            .first->second;
    if (session.client != sender())
      fail(Code::permission_denied, "{} may not register a graph in a session of {}", sender().to_string(),
           session.client.to_string());
    const std::span<const Tensor> tensors = request.tensors ? *request.tensors : std::span<const Tensor>();
    for (const proto::Partition& partition : body.partition())
      actors.push_back(spawn_partition(registration->handle->session, registration->handle->graph, partition, tensors));
  } catch (...) {
    return Reply::of(current_error());
  }
  registration->left = actors.size();
  registration->handle->partitions.resize(actors.size());
  registration->promise = make_response_promise<Reply>();
  if (actors.empty()) hand_over(registration);
  for (std::size_t i = 0; i < actors.size(); ++i)
    this->request(actors[i], caf::infinite, BuildPlan{})
        .then([this, registration, i](const Built& result) { built(registration, i, result); },
              [this, registration, i](const caf::error& error) {
                built(registration, i, Built{Error(Code::cancelled, system().render(error)), nullptr});
              });
  return registration->promise;
}

void NodeActorImpl::built(const std::shared_ptr<Registration>& registration, std::size_t index, const Built& result) {
  if (result.error && !registration->error) registration->error = result.error;
  registration->handle->partitions[index] = std::static_pointer_cast<LocalPartition>(result.partition);
  if (--registration->left == 0) hand_over(registration);
}

void NodeActorImpl::hand_over(const std::shared_ptr<Registration>& registration) {
  if (!registration->error && closed_.contains(registration->handle->session))
    registration->error = Error(Code::failed_precondition, "the session was closed during compilation of its graph");
  if (registration->error) {
    registration->promise.deliver(Reply::of(registration->error));
    return;
  }
  this->request(config_.scheduler, caf::infinite, AddGraph{registration->handle})
      .then([registration](const Reply& reply) mutable { registration->promise.deliver(reply); },
            [this, registration](const caf::error& error) mutable {
              registration->promise.deliver(Reply::of(Error(Code::cancelled, system().render(error))));
            });
}

caf::result<Reply> NodeActorImpl::close_session(const CloseSessionRequest& request) {
  const auto session = sessions_.find(SessionId{request.session});
  try {
    if (session != sessions_.end() && session->second.client != sender())
      fail(Code::permission_denied, "{} may not close a session of {}", sender().to_string(),
           session->second.client.to_string());
  } catch (...) {
    return Reply::of(current_error());
  }
  end_session(SessionId{request.session});
  return delegate(config_.scheduler, request);
}

void NodeActorImpl::end_session(SessionId session) {
  if (closed_.size() >= kClosed) closed_.erase(closed_.begin());
  closed_.insert(session);
  if (auto node = sessions_.extract(session))
    for (const auto& [graph, partition] : node.mapped().partitions) tell(partition, Stop{});
}

void NodeActorImpl::drop_graph(const DropGraph& message) {
  if (const auto session = sessions_.find(message.session); session != sessions_.end()) {
    auto& partitions = session->second.partitions;
    const auto [first, last] = partitions.equal_range(message.graph);
    for (auto at = first; at != last; ++at) tell(at->second, Stop{});
    partitions.erase(first, last);
  }
  if (config_.scheduler) tell(config_.scheduler, message);
}

// A lost client closes no sessions. The scheduler, also an observer, ends its own part.
void NodeActorImpl::end_sessions_of(const TaskName& client) {
  std::vector<SessionId> orphans;
  for (const auto& [id, session] : sessions_)
    if (session.client == client) orphans.push_back(id);
  for (SessionId session : orphans) end_session(session);
}

std::string make_welcome(const TaskIdentity& identity, const std::string& introspector,
                         const std::vector<LocalDevice>& devices, const KernelRegistry& kernels) {
  proto::Welcome welcome;
  welcome.set_task(identity.task.to_string());
  welcome.set_incarnation(identity.incarnation.value);
  welcome.set_introspector(introspector);
  for (const LocalDevice& local : devices) {
    const DeviceAttributes& attributes = local.device->attributes();
    proto::Device& device = *welcome.add_device();
    device.set_name(attributes.name.to_string());
    device.set_type(attributes.type);
    device.set_memory_bytes(attributes.memory_bytes);
    for (const std::string& kernel : kernels.list(attributes.type)) device.add_kernel(kernel);
  }
  return welcome.SerializeAsString();
}

TaskName parse_task_name(const std::string& text) {
  const DeviceName name = DeviceName::parse(text);
  if (!name.job || !name.task || name.type || name.index)
    invalid_argument("'{}' is not a task name (/job:NAME/task:N)", text);
  return name.task_name();
}

}  // namespace troupe
