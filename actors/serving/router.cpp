#include "troupe/actors/serving/router.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/serving/configured_models.hpp>
#include <troupe/actors/serving/router_actor.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

class Router::Impl {
 public:
  Impl(Task& given, const RequestRouter::Options& options, std::function<void()> on_change,
       std::function<void(const std::string&)> on_trouble)
      : task(given),
        actor(spawn_actor<ActorKind::router, RouterActorImpl>(
            task.system(), task.actors(), task.name().to_string(),
            RouterActorImpl::Config{.options = options,
                                    .directory = directory,
                                    .models = models,
                                    .on_change = std::move(on_change),
                                    .on_trouble = std::move(on_trouble)})) {
    caf::anon_send(task.handles().node, ServingRoutes{.router = actor});
    caf::anon_send(task.handles().node, Observe{caf::actor_cast<PeerObserver>(actor)});
  }
  ~Impl() {
    if (task.handles().node) caf::anon_send(task.handles().node, ServingRoutes{});
    caf::anon_send(actor, Stop{});
    caf::scoped_actor self(task.system());
    self->wait_for(actor);  // neither is called any more
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Task& task;
  const std::shared_ptr<ServingDirectory> directory = std::make_shared<ServingDirectory>();
  const std::shared_ptr<RoutedModels> models = std::make_shared<RoutedModels>();
  RouterActor actor;
};

Router::Router(Task& task, const RequestRouter::Options& options, std::function<void()> on_change,
               std::function<void(const std::string&)> on_trouble)
    : impl_(std::make_unique<Impl>(task, options, std::move(on_change), std::move(on_trouble))) {}
Router::~Router() = default;

ServableHandle Router::find(std::string_view model, const VersionLabels::Wanted& wanted) const {
  if (impl_->models->replicas() == 0) fail(Code::unavailable, "no replica is there yet, or any more");
  return impl_->directory->find(model, wanted);
}

std::vector<ServableManager::Status> Router::status(const std::string& model) const {
  const auto all = impl_->models->all();
  const auto found = all.find(model);
  if (found == all.end()) fail(Code::not_found, "no model '{}' is served", model);
  return found->second;
}

std::vector<std::string> Router::models() const {
  std::vector<std::string> out;
  for (const auto& [name, versions] : impl_->models->all()) out.push_back(name);
  return out;
}

std::size_t Router::serving(const std::string& model) const { return impl_->models->serving(model); }

bool Router::ready() const {
  return impl_->models->replicas() > 0 && !impl_->models->all().empty() && impl_->directory->all_ready();
}

bool Router::await_ready(std::chrono::nanoseconds timeout) const {
  return impl_->models->wait(timeout, [this] { return ready(); });
}

void Router::configure(const std::vector<ServedModel>& models, std::function<void(const Error&)> done) {
  auto call = std::make_shared<Reconfiguration>();
  call->done = std::move(done);
  try {
    call->models = configured_models(models);
  } catch (...) {
    return call->answer(current_error());
  }
  caf::anon_send(impl_->actor, ReconfigureModels{std::move(call)});
}

}  // namespace troupe
