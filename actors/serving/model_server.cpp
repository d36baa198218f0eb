#include "troupe/actors/serving/model_server.hpp"

#include <algorithm>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <mutex>
#include <set>
#include <utility>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/serving/manager_actor.hpp>
#include <troupe/actors/serving/source_actor.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {
namespace {

constexpr std::chrono::seconds kPatience{10};  // for handles that others keep at the end

// `paths`: whether the source needs them.
void check_models(const std::vector<ServedModel>& models, bool paths) {
  std::set<std::string> names;
  for (const ServedModel& model : models) {
    if (model.name.empty()) invalid_argument("a model at '{}' has no name", shown_path(model.path));
    if (paths && model.path.empty()) invalid_argument("model '{}' has no path", model.name);
    if (!names.insert(model.name).second) invalid_argument("model '{}' is given twice", model.name);
    static_cast<void>(choose_versions(model.versions, {}));
    try {
      if (model.batching) static_cast<void>(BatchQueue(*model.batching));
    } catch (const Error& error) {
      throw error.within(fmt::format("model '{}'", model.name));
    }
  }
}

std::map<std::string, std::map<std::string, std::int64_t>> labels_of(const std::vector<ServedModel>& models) {
  std::map<std::string, std::map<std::string, std::int64_t>> out;
  for (const ServedModel& model : models) out[model.name] = model.labels;
  return out;
}

}  // namespace

class ModelServer::Impl {
 public:
  Impl(Task& task, const ModelServerOptions& options) : system(task.system()), own_source(options.source != nullptr) {
    loading->loader = options.loader ? options.loader : std::make_shared<FormatLoader>(task.ops());
    std::shared_ptr<VersionSource> versions = options.source ? options.source : std::make_shared<PathSource>();
    const std::string name = task.name().to_string();
    manager = spawn_actor<ActorKind::manager, ManagerActorImpl>(task.system(), task.actors(), name,
                                                                ManagerActorImpl::Config{.task = task,
                                                                                         .options = options.manager,
                                                                                         .threads = options.threads,
                                                                                         .on_state = options.on_state,
                                                                                         .directory = directory,
                                                                                         .status = status,
                                                                                         .loading = loading});
    source = spawn_actor<ActorKind::source, SourceActorImpl>(task.system(), task.actors(), name, manager,
                                                             std::move(versions), options.poll);
  }
  ~Impl() {
    loading->ending = true;
    directory->configure({});
    caf::anon_send(source, WatchModels{});
    status->wait(kPatience, [](const auto& all, bool idle) {
      return idle && std::ranges::none_of(all, [](const auto& s) { return s.aspired; });
    });
    caf::anon_send(source, Stop{});
    caf::anon_send(manager, Stop{});
    caf::scoped_actor self(system);
    self->wait_for(manager);  // on_state is not called any more
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void configure(std::vector<ServedModel> given, LabelRule rule) {
    check_models(given, !own_source);
    const std::lock_guard lock(mutex);
    directory->configure(labels_of(given), rule);
    models = given;
    caf::anon_send(source, WatchModels{std::move(given)});
  }

  caf::actor_system& system;
  const bool own_source;  // the program's
  const std::shared_ptr<ServingDirectory> directory = std::make_shared<ServingDirectory>();
  const std::shared_ptr<ServingStatus> status = std::make_shared<ServingStatus>();
  const std::shared_ptr<SharedLoading> loading = std::make_shared<SharedLoading>();
  ManagerActor manager;
  SourceActor source;
  mutable std::mutex mutex;
  std::vector<ServedModel> models;
};

ModelServer::ModelServer(Task& task, const ModelServerOptions& options)
    : impl_(std::make_unique<Impl>(task, options)) {}
ModelServer::~ModelServer() = default;

void ModelServer::configure(std::vector<ServedModel> models) { impl_->configure(std::move(models), LabelRule::ready); }

void ModelServer::configure_with_any_labels(std::vector<ServedModel> models) {
  impl_->configure(std::move(models), LabelRule::any);
}

void ModelServer::check(const std::vector<ServedModel>& models) const {
  check_models(models, !impl_->own_source);
  impl_->directory->check(labels_of(models));
}

std::vector<ServedModel> ModelServer::models() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->models;
}

ServableHandle ModelServer::find(std::string_view model, const VersionLabels::Wanted& wanted) const {
  return impl_->directory->find(model, wanted);
}

std::vector<ServableManager::Status> ModelServer::status() const { return impl_->status->all(); }

std::vector<ServableManager::Status> ModelServer::status(const std::string& model) const {
  std::vector<ServableManager::Status> out = status();
  std::erase_if(out, [&](const auto& s) { return s.id.model != model; });
  if (out.empty() && std::ranges::none_of(models(), [&](const auto& m) { return m.name == model; }))
    fail(Code::not_found, "no model '{}' is served", model);
  return out;
}

std::map<std::string, std::int64_t> ModelServer::labels(const std::string& model) const {
  return impl_->directory->labels(model);
}

bool ModelServer::ready() const { return impl_->directory->all_ready(); }

void ModelServer::await_ready(const std::string& model, std::chrono::nanoseconds timeout) const {
  const auto is_ready = [&](const auto& all, bool) {
    return std::ranges::any_of(all,
                               [&](const auto& s) { return s.id.model == model && s.state == ServableState::ready; });
  };
  if (impl_->status->wait(timeout, is_ready)) return;
  try {
    find(model);
  } catch (const Error& why) {
    fail(Code::deadline_exceeded, "{}", why.message());
  }
}

bool ModelServer::await_decided(std::chrono::nanoseconds timeout) const {
  std::vector<std::string> names;
  for (const ServedModel& model : models()) names.push_back(model.name);
  return impl_->status->wait_decided(timeout, names);
}

void ModelServer::look_now() { caf::anon_send(impl_->source, LookNow{}); }

void ModelServer::retry(const ServableId& id) {
  const std::vector<ServableManager::Status> all = status(id.model);
  const auto found = std::ranges::find(all, id, &ServableManager::Status::id);
  if (found == all.end()) fail(Code::not_found, "there is no servable {}", id.to_string());
  if (found->state != ServableState::error)
    fail(Code::failed_precondition, "servable {} is {}, not Error", id.to_string(), name(found->state));
  caf::anon_send(impl_->manager, RetryServable{id});
}

}  // namespace troupe
