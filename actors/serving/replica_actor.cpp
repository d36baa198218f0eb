#include "troupe/actors/serving/replica_actor.hpp"

#include <caf/send.hpp>
#include <vector>

#include <troupe/actors/serving/configured_models.hpp>
#include <troupe/actors/serving/replica_state.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

void ReplicaCalls::begin(const Name& name) {
  const std::lock_guard lock(mutex_);
  calls_[name] = nullptr;
}

void ReplicaCalls::started(const Name& name, std::shared_ptr<ServingCall> call) {
  const std::lock_guard lock(mutex_);
  if (const auto found = calls_.find(name); found != calls_.end()) found->second = std::move(call);
}

void ReplicaCalls::end(const Name& name) {
  {
    const std::lock_guard lock(mutex_);
    calls_.erase(name);
    if (!calls_.empty()) return;
  }
  changed_.notify_all();
}

void ReplicaCalls::set_routers(std::size_t routers) {
  {
    const std::lock_guard lock(mutex_);
    routers_ = routers;
  }
  changed_.notify_all();
}

bool ReplicaCalls::await_alone(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return routers_ == 0; });
}

bool ReplicaCalls::await_idle(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return calls_.empty(); });
}

void ReplicaCalls::cancel(const Name& name) {
  std::shared_ptr<ServingCall> call;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = calls_.find(name); found != calls_.end()) call = found->second;
  }
  if (call) call->cancel();  // which may end it, here
}

void ReplicaCalls::cancel_all_of(const TaskName& router) {
  std::vector<std::shared_ptr<ServingCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, call] : calls_)
      if (name.first == router && call) calls.push_back(call);
  }
  for (const auto& call : calls) call->cancel();
}

void ReplicaCalls::end_all() {
  ending_ = true;
  std::vector<std::shared_ptr<ServingCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, call] : calls_)
      if (call) calls.push_back(call);
  }
  for (const auto& call : calls) call->cancel();
}

bool ReplicaChanges::own(const std::function<void()>& change) {
  const std::lock_guard lock(mutex_);
  if (configuration_.number > 0) return false;
  change();
  return true;
}

bool ReplicaChanges::of_router(const ModelConfiguration& configuration, const std::function<void()>& change) {
  const std::lock_guard lock(mutex_);
  if (configuration.number <= configuration_.number) return false;
  change();
  configuration_ = configuration;
  return true;
}

ModelConfiguration ReplicaChanges::configuration() const {
  const std::lock_guard lock(mutex_);
  return configuration_;
}

ReplicaActorImpl::behavior_type ReplicaActorImpl::make_behavior() {
  return {
      [this](const Inbound<WantModels>& message) {
        if (const auto router = routers_.find(message.from); router != routers_.end()) tell_models(router->second);
      },
      [this](const Inbound<AskModel>& message) { ask(message.from, message.frame); },
      [this](const Inbound<DropModelRequest>& message) {
        calls_->cancel({message.from, message.frame.request});
      },
      [this](const Inbound<ConfigureModels>& message) { configure(message.from, message.frame); },
      [this](const PeerUp& message) {
        if (message.task.job != kRouterJob) return;
        routers_[message.task] = message.peer;
        calls_->set_routers(routers_.size());
        tell_models(message.peer);
      },
      [this](const PeerDown& message) {
        if (routers_.erase(message.task) > 0) calls_->cancel_all_of(message.task);
        calls_->set_routers(routers_.size());
      },
      [this](const Tick&) { tell_routers(); },
      [this](const DrainReplica&) {
        draining_ = true;
        tell_routers();
      },
      [this](const Stop&) { quit(); },
  };
}

void ReplicaActorImpl::tell_models(const PeerActor& router) {
  if (told_.empty()) told_ = to_json(draining_ ? ReplicaState() : state_of(server_));
  tell(router, Outbound{ReplicaModels{told_, changes_->configuration()}});
}

void ReplicaActorImpl::tell_routers() {
  std::string now = to_json(draining_ ? ReplicaState() : state_of(server_));
  if (now == told_) return;
  told_ = std::move(now);
  for (const auto& [task, peer] : routers_) tell_models(peer);
}

void ReplicaActorImpl::configure(const TaskName& router, const ConfigureModels& asked) {
  const auto peer = routers_.find(router);
  if (peer == routers_.end()) return;  // it is gone, and tells again when it is back
  ModelsConfigured answer{.request = asked.request, .error = {}};
  try {
    std::vector<ServedModel> models = served_models(asked.configuration.models);
    if (complete_) models = complete_(std::move(models));
    const auto take = [&] {
      if (!draining_) server_.configure_with_any_labels(std::move(models));
    };
    if (!asked.decided) {
      server_.check(models);
    } else if (changes_->of_router(asked.configuration, take)) {
      told_.clear();
      tell_routers();
    } else {
      tell_models(peer->second);
    }
  } catch (...) {
    answer.error = current_error();
  }
  tell(peer->second, Outbound{std::move(answer)});
}

void ReplicaActorImpl::on_exit() {
  calls_->end_all();
  routers_.clear();
  Counted::on_exit();
}

void ReplicaActorImpl::ask(const TaskName& router, AskModel ask) {
  const std::shared_ptr<TracedRequest> traced = traced_.arrival();
  if (traced) trace_ask(record().registry.trace(), TraceKind::arrives, traced->key(), ask.request, router);
  const auto peer = routers_.find(router);
  if (peer == routers_.end()) return;  // it is gone, and sends the request to another when it is back
  const auto answer = [calls = calls_, peer = peer->second, request = ask.request, traced](ServingResult result) {
    if (result.error.code() == Code::cancelled && calls->ending())
      result.error = Error(Code::unavailable, "the replica is ending");
    if (traced) traced->end(result);
    ModelAnswer out{.request = request, .error = std::move(result.error), .retry_after_ms = result.retry_after_ms};
    out.queued_ns = result.times.queued;
    out.batched_ns = result.times.batched;
    out.run_ns = result.times.run;
    for (auto& [name, tensor] : result.outputs) {
      out.names.push_back(name);
      out.outputs.push_back(std::move(tensor));
    }
    caf::anon_send(peer, Outbound{std::move(out)});
  };
  const ReplicaCalls::Name name{router, ask.request};
  try {
    if (ask.names.size() != ask.inputs.size())
      invalid_argument("{} inputs have {} names", ask.inputs.size(), ask.names.size());
    const ServableHandle servable = server_.find(ask.model, {.version = ask.version});
    ServingRequest request{.signature = std::move(ask.signature), .outputs = std::move(ask.outputs)};
    for (std::size_t i = 0; i < ask.names.size(); ++i)
      request.inputs.emplace(std::move(ask.names[i]), std::move(ask.inputs[i]));
    request.trace = std::move(ask.trace);
    if (ask.timeout_ns >= 0) request.deadline = steady_now_ns() + ask.timeout_ns;
    if (traced) traced->start(*servable, request);
    calls_->begin(name);
    auto call = servable->start(std::move(request), [calls = calls_, name, servable, answer](ServingResult result) {
      calls->end(name);
      answer(std::move(result));
    });
    calls_->started(name, std::move(call));
  } catch (...) {
    calls_->end(name);
    answer({.error = current_error()});
  }
}

}  // namespace troupe
