#include "troupe/actors/serving/router_actor.hpp"

#include <algorithm>
#include <atomic>
#include <caf/send.hpp>
#include <chrono>
#include <set>
#include <utility>

#include <troupe/actors/serving/loaded_servable.hpp>
#include <troupe/actors/serving/traced_requests.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {
namespace {

RequestRouter::Replica index_of(const TaskName& task) { return static_cast<RequestRouter::Replica>(task.index); }

std::uint64_t next_routed() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// A version that replicas have.
class RemoteServable final : public Servable {
 public:
  RemoteServable(ServableId id, std::map<std::string, ModelSignature> signatures, RouterActor router)
      : id_(std::move(id)), signatures_(std::move(signatures)), router_(std::move(router)) {}
  const ServableId& id() const override { return id_; }
  const std::map<std::string, ModelSignature>& signatures() const override { return signatures_; }
  const std::string& signature_named(const std::string& given) const override {
    return usual_signature(id_, signatures_, given);
  }
  ServingStatistics* statistics() const override { return &statistics_; }
  std::shared_ptr<ServingCall> start(ServingRequest request, std::function<void(ServingResult)> done) const override;

 private:
  class Call;

  const ServableId id_;
  const std::map<std::string, ModelSignature> signatures_;
  const RouterActor router_;
  mutable ServingStatistics statistics_;
};

class RemoteServable::Call final : public ServingCall {
 public:
  Call(RouterActor router, std::uint64_t id) : router_(std::move(router)), id_(id) {}
  void cancel() override { caf::anon_send(router_, CancelRequest{id_}); }

 private:
  const RouterActor router_;
  const std::uint64_t id_;
};

std::shared_ptr<ServingCall> RemoteServable::start(ServingRequest request,
                                                   std::function<void(ServingResult)> done) const {
  statistics_.begin();
  auto call = std::make_shared<RoutedCall>();
  call->done = [this, came = steady_now_ns(), done = std::move(done)](ServingResult result) {
    statistics_.end(result, steady_now_ns() - came);  // the handle is kept until `done`
    done(std::move(result));
  };
  try {
    check_outputs(signatures_.at(signature_named(request.signature)), request.outputs);
  } catch (...) {
    call->answer({.error = current_error()});
    return nullptr;
  }
  call->id = next_routed();
  call->wanted = id_;
  call->request = std::move(request);
  auto cancels = std::make_shared<Call>(router_, call->id);
  caf::anon_send(router_, RouteRequest{std::move(call)});
  return cancels;
}

// The nearer to ready, the larger.
int rank_of(ServableState state) {
  switch (state) {
    case ServableState::ready:
      return 6;
    case ServableState::loading:
      return 5;
    case ServableState::fresh:
      return 4;
    case ServableState::quiescing:
      return 3;
    case ServableState::unloading:
      return 2;
    case ServableState::error:
      return 1;
    case ServableState::unloaded:
      break;
  }
  return 0;
}

}  // namespace

RoutedCall::~RoutedCall() {
  if (done) answer({.error = Error(Code::unavailable, "the router is ending: ask again"), .retry_after_ms = 1000});
}

void RoutedCall::answer(ServingResult result) {
  if (const auto take = std::exchange(done, nullptr)) take(std::move(result));
}

Reconfiguration::~Reconfiguration() {
  answer(Error(Code::unavailable, "the router is ending: send the configuration again when it is back"));
}

void Reconfiguration::answer(const Error& error) {
  if (const auto take = std::exchange(done, nullptr)) take(error);
}

void RoutedModels::set(std::map<std::string, std::vector<ServableManager::Status>> models,
                       std::map<std::string, std::size_t> having, std::size_t replicas) {
  {
    const std::lock_guard lock(mutex_);
    models_ = std::move(models);
    having_ = std::move(having);
    replicas_ = replicas;
  }
  changed_.notify_all();
}

std::map<std::string, std::vector<ServableManager::Status>> RoutedModels::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

std::size_t RoutedModels::replicas() const {
  const std::lock_guard lock(mutex_);
  return replicas_;
}

std::size_t RoutedModels::serving(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const auto found = having_.find(model);
  return found == having_.end() ? 0 : found->second;
}

bool RoutedModels::wait(std::chrono::nanoseconds timeout, const std::function<bool()>& is_ready) const {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!is_ready()) {
    std::unique_lock lock(mutex_);
    // A change between the look and the wait is seen at the next one.
    const auto soon = std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    changed_.wait_until(lock, soon);
    if (std::chrono::steady_clock::now() >= until) return false;
  }
  return true;
}

RouterActorImpl::behavior_type RouterActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const Inbound<ReplicaModels>& message) { came(message.from, message.frame); },
      [this](const Inbound<ModelAnswer>& message) { answered(message.from, message.frame); },
      [this](const Inbound<ModelsConfigured>& message) {
        ReplicaConfigurations::Actions actions;
        configurations_.answered(index_of(message.from), message.frame.request, message.frame.error, steady_now_ns(),
                                 actions);
        spread(std::move(actions));
      },
      [this](const ReconfigureModels& message) { reconfigure(message.call); },
      [this](const RouteRequest& message) {
        const auto& call = message.call;
        calls_.emplace(call->id, call);
        RequestRouter::Actions actions;
        router_.add(call->id, call->wanted, call->request.key, call->request.deadline, steady_now_ns(), actions);
        act(std::move(actions));
      },
      [this](const CancelRequest& message) {
        if (const auto replica = router_.cancel(message.request)) drop(message.request, *replica);
        if (const auto call = calls_.extract(message.request))
          call.mapped()->answer({.error = Error(Code::cancelled, "the request was cancelled")});
      },
      [this](const PeerUp& message) {
        if (message.task.job != kServeJob) return;
        replicas_[index_of(message.task)] = {.peer = message.peer};
        configurations_.up(index_of(message.task));
        tell(message.peer, Outbound{WantModels{}});
      },
      [this](const PeerDown& message) {
        if (message.task.job == kServeJob) gone(message.task);
      },
      [this](const Tick&) {
        next_tick_ = RequestRouter::kNever;
        RequestRouter::Actions actions;
        router_.expired(steady_now_ns(), actions);
        act(std::move(actions));
        ReplicaConfigurations::Actions late;
        configurations_.expired(steady_now_ns(), late);
        spread(std::move(late));
      },
      [this](const Stop&) { quit(); },
  };
}

// Handles, or a Tick that is under way, keep this object: what waits is answered now.
void RouterActorImpl::on_exit() {
  stop_telling();
  for (const auto& [model, versions] : config_.models->all()) config_.directory->publish(model, {}, {}, {});
  calls_.clear();
  reconfiguration_ = nullptr;
  replicas_.clear();
  remotes_.clear();
  Counted::on_exit();
}

void RouterActorImpl::inspect(ActorDetails& out) const {
  const auto models = config_.models->all();
  for (const auto& [model, versions] : models)
    for (const ServableManager::Status& status : versions) {
      ServableSnapshot seen{.model = status.id.model,
                            .version = status.id.version,
                            .state = std::string(troupe::name(status.state)),
                            .error = status.error.message(),
                            .bytes = status.bytes};
      for (const auto& [label, version] : config_.directory->labels(model))
        if (version == status.id.version) seen.labels.push_back(label);
      if (const auto remote = remotes_.find(status.id); remote != remotes_.end())
        remote->second.servable->statistics()->read(seen);
      out.servables.push_back(std::move(seen));
    }
  for (const RequestRouter::Replica replica : configurations_.behind())
    out.waits_for = fmt::format("replica {}, which has not taken the configuration", replica);
  if (router_.waiting() > 0) {
    out.waits_for = fmt::format("a replica, for {} requests", router_.waiting());
    out.waiting.things.push_back({.id = "requests/router",
                                  .text = fmt::format("{} requests", router_.waiting()),
                                  .state = WaitThing::State::waits});
    out.waiting.things.push_back(
        {.id = "replicas", .text = "a replica that has their model", .state = WaitThing::State::stuck});
    out.waiting.waits.push_back({.waiter = "requests/router", .awaited = "replicas", .kind = "replica"});
  }
}

void RouterActorImpl::came(const TaskName& task, const ReplicaModels& models) {
  const RequestRouter::Replica index = index_of(task);
  const auto replica = replicas_.find(index);
  if (replica == replicas_.end()) return;
  replica->second.state = parse_replica_state(models.state);
  ReplicaConfigurations::Actions configured;
  configurations_.reports(index, models.configuration, steady_now_ns(), configured);
  if (replica->second.usable && configurations_.usable(index)) {
    RequestRouter::Actions actions;
    offer(index, replica->second, actions);
    publish();
    act(std::move(actions));
  }
  spread(std::move(configured));
}

// Requests may be sent to the replica, or not any more.
void RouterActorImpl::offer(RequestRouter::Replica index, const ReplicaTask& replica, RequestRouter::Actions& out) {
  std::set<ServableId> ready;
  if (replica.usable)
    for (const auto& [name, model] : replica.state.models)
      for (const ReplicaState::Version& version : model.versions)
        if (version.status.state == ServableState::ready) ready.insert(version.status.id);
  router_.up(index, std::move(ready), steady_now_ns(), out);
}

void RouterActorImpl::reconfigure(const std::shared_ptr<Reconfiguration>& call) {
  const std::chrono::nanoseconds clock = std::chrono::system_clock::now().time_since_epoch();
  ReplicaConfigurations::Actions actions;
  if (const Error error = configurations_.begin(std::move(call->models), static_cast<std::uint64_t>(clock.count()),
                                                steady_now_ns(), actions))
    return call->answer(error);
  reconfiguration_ = call;
  spread(std::move(actions));
}

// Answers those who wait for the end last, when requests already find what there is now.
void RouterActorImpl::spread(ReplicaConfigurations::Actions actions) {
  for (ReplicaConfigurations::Send& send : actions.send)
    tell(replicas_.at(send.replica).peer,
         Outbound{ConfigureModels{send.request, send.decided, std::move(send.configuration)}});
  for (const std::string& trouble : actions.troubles)
    if (config_.on_trouble) config_.on_trouble(trouble);
  bool changed = false;
  RequestRouter::Actions offers;
  for (auto& [index, replica] : replicas_) {
    if (configurations_.usable(index) == replica.usable) continue;
    replica.usable = !replica.usable;
    offer(index, replica, offers);
    changed = true;
  }
  if (changed) publish();
  act(std::move(offers));
  if (!actions.over) return;
  if (const auto call = std::exchange(reconfiguration_, nullptr)) call->answer(*actions.over);
}

void RouterActorImpl::gone(const TaskName& task) {
  const RequestRouter::Replica index = index_of(task);
  if (replicas_.erase(index) == 0) return;
  RequestRouter::Actions actions;
  router_.down(index, steady_now_ns(), actions);
  publish();
  act(std::move(actions));
  ReplicaConfigurations::Actions configured;
  configurations_.down(index, steady_now_ns(), configured);
  spread(std::move(configured));
}

void RouterActorImpl::answered(const TaskName& task, ModelAnswer answer) {
  RequestRouter::Actions actions;
  const bool over = router_.answered(answer.request, index_of(task), answer.error.code(), answer.retry_after_ms,
                                     steady_now_ns(), actions);
  if (over) {
    if (const auto call = calls_.extract(answer.request)) {
      ServingResult result{.error = std::move(answer.error), .retry_after_ms = answer.retry_after_ms};
      result.times = {.queued = answer.queued_ns, .batched = answer.batched_ns, .run = answer.run_ns};
      for (std::size_t i = 0; i < std::min(answer.names.size(), answer.outputs.size()); ++i)
        result.outputs.emplace(std::move(answer.names[i]), std::move(answer.outputs[i]));
      call.mapped()->answer(std::move(result));
    }
  }
  act(std::move(actions));
}

void RouterActorImpl::act(RequestRouter::Actions actions) {
  for (const RequestRouter::Send& one : actions.send) send(one);
  for (RequestRouter::Fail& one : actions.fail) {
    if (one.drops) drop(one.request, *one.drops);
    if (const auto call = calls_.extract(one.request))
      call.mapped()->answer({.error = std::move(one.error), .retry_after_ms = one.retry_after_ms});
  }
  wake();
}

void RouterActorImpl::send(const RequestRouter::Send& to) {
  const RoutedCall& call = *calls_.at(to.request);
  const ServingRequest& request = call.request;
  AskModel out{.request = call.id,
               .model = call.wanted.model,
               .version = call.wanted.version,
               .signature = request.signature,
               .outputs = request.outputs,
               .trace = request.trace};
  for (const auto& [name, tensor] : request.inputs) {
    out.names.push_back(name);
    out.inputs.push_back(tensor);
  }
  if (request.deadline != BatchQueue::kNever)
    out.timeout_ns = std::max<Nanoseconds>(request.deadline - steady_now_ns(), 0);
  if (Trace& trace = record().registry.trace(); trace.on())
    trace_ask(trace, TraceKind::departs, request.traced, call.id,
              {.job = std::string(kServeJob), .index = static_cast<int>(to.replica)});
  tell(replicas_.at(to.replica).peer, Outbound{std::move(out)});
}

void RouterActorImpl::drop(std::uint64_t request, RequestRouter::Replica replica) {
  if (const auto found = replicas_.find(replica); found != replicas_.end())
    tell(found->second.peer, Outbound{DropModelRequest{request}});
}

void RouterActorImpl::publish() {
  std::map<std::string, std::vector<ServableManager::Status>> models;
  std::map<std::string, Error> why;
  std::map<std::string, std::map<std::string, std::int64_t>> labels;
  std::map<std::string, std::size_t> having;  // replicas with a version of the model that is ready
  std::map<ServableId, Remote> remotes;
  std::size_t usable = 0;
  for (const auto& [index, replica] : replicas_) {
    if (!replica.usable) continue;
    ++usable;
    for (const auto& [name, model] : replica.state.models) {
      auto& versions = models[name];
      if (model.why) why[name] = model.why;
      labels[name].insert(model.labels.begin(), model.labels.end());
      bool any = false;
      for (const ReplicaState::Version& version : model.versions) {
        const auto known = std::ranges::find(versions, version.status.id, &ServableManager::Status::id);
        if (known == versions.end())
          versions.push_back(version.status);
        else if (rank_of(version.status.state) > rank_of(known->state))
          *known = version.status;
        if (version.status.state != ServableState::ready) continue;
        any = true;
        Remote& remote = remotes[version.status.id];
        if (remote.servable) continue;
        const auto before = remotes_.find(version.status.id);
        if (before != remotes_.end() && before->second.signatures == version.signatures)
          remote = before->second;
        else
          remote = {std::make_shared<RemoteServable>(version.status.id, version.signatures, RouterActor(this)),
                    version.signatures};
      }
      if (any) ++having[name];
    }
  }
  remotes_ = std::move(remotes);
  std::map<std::string, std::map<std::string, std::int64_t>> configured;
  for (auto& [name, versions] : models) {
    std::ranges::sort(versions, {}, &ServableManager::Status::id);
    configured[name];
  }
  config_.directory->configure(configured);
  const std::map<ServableId, std::size_t> ready = router_.ready();
  for (const auto& [name, versions] : models) {
    std::map<std::int64_t, ServableHandle> handles;
    std::optional<std::int64_t> usual;
    for (const auto& [id, remote] : remotes_)
      if (id.model == name) {
        handles[id.version] = remote.servable;
        if (const auto on = ready.find(id); on != ready.end() && on->second == having[name]) usual = id.version;
      }
    Error reason = why[name];
    if (handles.empty() && !reason) reason = Error(Code::unavailable, "its replicas have just come");
    config_.directory->publish(name, std::move(handles), reason, labels[name], usual);
  }
  config_.models->set(std::move(models), std::move(having), usable);
  if (config_.on_change) config_.on_change();
}

void RouterActorImpl::wake() {
  const Nanoseconds next = std::min(router_.next_time().value_or(RequestRouter::kNever),
                                    configurations_.next_time().value_or(RequestRouter::kNever));
  if (next >= next_tick_) return;
  next_tick_ = next;
  delayed_send(RouterActor(this), std::chrono::nanoseconds(std::max<Nanoseconds>(next - steady_now_ns(), 0)), Tick{});
}

}  // namespace troupe
