#include "troupe/actors/serving/manager_actor.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <chrono>
#include <set>
#include <utility>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/serving/loader_actor.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

void ServingStatus::set(std::vector<ServableManager::Status> status, bool idle, std::set<std::string> decided) {
  {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    idle_ = idle;
    decided_ = std::move(decided);
  }
  changed_.notify_all();
}

std::vector<ServableManager::Status> ServingStatus::all() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool ServingStatus::wait(
    std::chrono::nanoseconds timeout,
    const std::function<bool(const std::vector<ServableManager::Status>&, bool idle)>& ready) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return ready(status_, idle_); });
}

bool ServingStatus::wait_decided(std::chrono::nanoseconds timeout, const std::vector<std::string>& models) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] {
    return std::ranges::all_of(models, [&](const std::string& model) { return decided_.contains(model); });
  });
}

ManagerActorImpl::behavior_type ManagerActorImpl::make_behavior() {
  tell_of_itself();
  set_down_handler([this](caf::down_msg& down) { loader_lost(down); });
  return {
      [this](const Aspire& message) {
        aspire(message);
        act();
      },
      [this](const ServableLoaded& message) {
        Version& version = versions_.at(message.id);
        if (message.servable) {
          version.servable = message.servable;
          version.statistics = message.servable->shared_statistics();
          manager_.loaded(message.id, message.bytes, steady_now_ns());
        } else {
          tell(version.loader, Stop{});
          version.loader = nullptr;
          manager_.failed(message.id, message.error, steady_now_ns());
        }
        act();
      },
      [this](const ServableUnloaded& message) {
        versions_.at(message.id).loader = nullptr;
        manager_.unloaded(message.id, steady_now_ns());
        act();
      },
      [this](const ServableQuiesced& message) {
        const auto version = versions_.find(message.id);
        // The handle before this one: the version was wanted again when it had just ended.
        if (version == versions_.end() || version->second.publication != message.publication) return;
        manager_.quiesced(message.id);
        act();
      },
      [this](const RetryServable& message) {
        try {
          manager_.retry(message.id, steady_now_ns());
        } catch (const Error&) {  // its state has changed since the caller looked
        }
        act();
      },
      [this](const Tick&) {
        next_tick_ = BatchQueue::kNever;
        act();
      },
      [this](const Stop&) {
        for (auto& [id, version] : versions_)
          if (version.loader) tell(version.loader, Stop{});
        versions_.clear();
        quit();
      },
  };
}

void ManagerActorImpl::inspect(ActorDetails& out) const {
  for (const ServableManager::Status& status : manager_.status()) {
    ServableSnapshot seen{.model = status.id.model,
                          .version = status.id.version,
                          .state = std::string(troupe::name(status.state)),
                          .error = status.error.message(),
                          .bytes = status.bytes};
    for (const auto& [label, version] : config_.directory->labels(status.id.model))
      if (version == status.id.version) seen.labels.push_back(label);
    if (const auto version = versions_.find(status.id); version != versions_.end() && version->second.statistics)
      version->second.statistics->read(seen);
    out.servables.push_back(std::move(seen));
  }
}

void ManagerActorImpl::aspire(const Aspire& message) {
  const std::string& name = message.model.name;
  std::vector<ServableManager::Aspired> aspired;
  for (const FoundVersion& found : message.versions) {
    aspired.push_back({.version = found.version, .bytes = found.bytes});
    versions_[{name, found.version}].found = found;
  }
  manager_.aspire(name, aspired, steady_now_ns());
  if (message.versions.empty() && !message.error) {  // the model goes
    models_.erase(name);
    labels_.erase(name);
    why_none_.erase(name);
  } else {
    models_[name] = message.model;
    labels_[name] = message.labels;
    why_none_[name] = message.error;
  }
}

void ManagerActorImpl::act() {
  for (bool again = true; again;) {
    const std::vector<ServableManager::Action> due = manager_.due(steady_now_ns());
    publish();  // what is to be unloaded is not handed out any more
    again = false;
    for (const ServableManager::Action& action : due) again = begin(action) || again;
  }
  show();
  wake_for_attempts();
}

void ManagerActorImpl::show() {
  std::vector<ServableManager::Status> now = manager_.status();
  std::set<std::string> decided;
  for (const auto& [model, why] : why_none_) decided.insert(model);
  std::vector<ServableManager::Status> changed;
  for (const ServableManager::Status& status : now) {
    const bool begins = status.state == ServableState::fresh || status.state == ServableState::loading;
    if (status.aspired && begins && !status.error) decided.erase(status.id.model);
    const auto before = std::ranges::find(shown_, status.id, &ServableManager::Status::id);
    const bool same = before != shown_.end() && before->state == status.state &&
                      before->error.code() == status.error.code() && before->error.message() == status.error.message();
    if (!same) changed.push_back(status);
  }
  for (ServableManager::Status& before : shown_) {  // of a model that is gone
    if (before.state == ServableState::unloaded || std::ranges::count(now, before.id, &ServableManager::Status::id) > 0)
      continue;
    before.state = ServableState::unloaded;
    changed.push_back(before);
  }
  shown_ = now;
  config_.status->set(std::move(now), manager_.settled() && manager_.bytes() == 0, std::move(decided));
  if (!config_.on_state) return;
  for (const ServableManager::Status& status : changed) config_.on_state(status);  // who is told finds it so
}

bool ManagerActorImpl::begin(const ServableManager::Action& action) {
  Version& version = versions_.at(action.id);
  if (action.kind == ServableManager::Action::load) {
    version.loader = spawn_actor<ActorKind::loader, LoaderActorImpl>(
        system(), record().registry, action.id.to_string(), config_.task, action.id,
        models_.at(action.id.model).batching, config_.threads, config_.loading);
    monitor(version.loader);
    tell(version.loader, LoadServable{version.found, ManagerActor(this)});
    return false;
  }
  version.servable = nullptr;
  if (version.loader) {
    tell(version.loader, UnloadServable{ManagerActor(this)});
    return false;
  }
  manager_.unloaded(action.id, steady_now_ns());  // its loader has failed: this was the last to have it
  return true;
}

void ManagerActorImpl::loader_lost(const caf::down_msg& down) {
  const auto lost = std::ranges::find_if(
      versions_, [&](const auto& v) { return v.second.loader && v.second.loader.address() == down.source; });
  if (lost == versions_.end()) return;  // it has ended as it was told to
  const auto& [id, version] = *lost;
  lost->second.loader = nullptr;
  const std::vector<ServableManager::Status> all = manager_.status(id.model);
  const auto status = std::ranges::find(all, id, &ServableManager::Status::id);
  if (status == all.end()) return;
  if (status->state == ServableState::loading)
    manager_.failed(id, Error(Code::internal, "its loader has failed: " + system().render(down.reason)),
                    steady_now_ns());
  else if (status->state == ServableState::unloading)
    manager_.unloaded(id, steady_now_ns());
  act();  // a version that is ready goes on, with the manager's hold
}

void ManagerActorImpl::publish() {
  std::map<std::string, std::map<std::int64_t, ServableHandle>> ready;
  std::map<std::string, Error> why = why_none_;
  std::set<ServableId> known;
  for (const ServableManager::Status& status : manager_.status()) {
    known.insert(status.id);
    const auto version = versions_.find(status.id);
    if (version == versions_.end()) continue;
    if (status.state == ServableState::ready)
      ready[status.id.model][status.id.version] = handle_of(status.id, version->second);
    else
      version->second.published = nullptr;
    if (status.error)
      why[status.id.model] = status.error;
    else if (status.state == ServableState::loading)
      why[status.id.model] = Error(Code::unavailable, fmt::format("version {} is being loaded", status.id.version));
  }
  std::erase_if(versions_, [&](const auto& v) { return !known.contains(v.first) && !v.second.loader; });
  for (auto& [model, reason] : why) {
    if (!reason) reason = Error(Code::unavailable, "it has just been configured");
    config_.directory->publish(model, std::move(ready[model]), reason, labels_[model]);
  }
}

// Returns the version's handle, whose end tells this actor. There is one at a time: a version that is wanted again
// while requests have its handle goes on with that, or it could be unloaded under them later.
ServableHandle ManagerActorImpl::handle_of(const ServableId& id, Version& version) {
  if (!version.published) version.published = version.handle.lock();
  if (version.published) return version.published;
  version.publication = ++publications_;
  auto tells = [self = ManagerActor(this), id, publication = version.publication,
                held = version.servable](const Servable*) mutable {
    held = nullptr;  // not the last: the manager has one
    caf::anon_send(self, ServableQuiesced{id, publication});
  };
  version.published = ServableHandle(version.servable.get(), std::move(tells));
  version.handle = version.published;
  return version.published;
}

void ManagerActorImpl::wake_for_attempts() {
  const auto next = manager_.next_attempt();
  if (!next || *next >= next_tick_) return;
  next_tick_ = *next;
  delayed_send(ManagerActor(this), std::chrono::nanoseconds(std::max<Nanoseconds>(*next - steady_now_ns(), 0)), Tick{});
}

}  // namespace troupe
