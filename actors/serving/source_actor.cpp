#include "troupe/actors/serving/source_actor.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <troupe/actors/model/publication.hpp>
#include <troupe/actors/serving/version_paths.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

SourceActorImpl::behavior_type SourceActorImpl::make_behavior() {
  delayed_send(SourceActor(this), poll_, Tick{});
  return {
      [this](const WatchModels& message) {
        std::map<std::string, Watched> before = std::exchange(models_, {});
        for (const ServedModel& model : message.models) {
          const auto old = before.find(model.name);
          const bool same = old != before.end() && old->second.model.path == model.path;
          models_[model.name] = {.model = model, .found = same && old->second.found};
          before.erase(model.name);
        }
        for (const auto& [name, gone] : before) tell(manager_, Aspire{.model = gone.model});
        for (auto& [name, watched] : models_) look(watched);
      },
      [this](const Tick&) {
        for (auto& [name, watched] : models_) look(watched);
        delayed_send(SourceActor(this), poll_, Tick{});
      },
      [this](const Stop&) {
        manager_ = nullptr;
        quit();
      },
  };
}

void SourceActorImpl::look(Watched& watched) {
  Aspire out{.model = watched.model};
  try {
    FileSystem& files = file_system_of(watched.model.path);
    const std::vector<FoundVersion> there = versions_at(files, watched.model.path);
    std::vector<std::int64_t> numbers;
    for (const FoundVersion& found : there) numbers.push_back(found.version);
    VersionPolicy policy = watched.model.versions;
    if (const auto publication = read_publication(files, watched.model.path)) {
      out.labels = labels_of(*publication);
      if (std::holds_alternative<LatestVersions>(policy)) {
        SpecificVersions published;
        for (const auto& [label, version] : out.labels) published.versions.push_back(version);
        policy = std::move(published);
      }
    }
    for (const std::int64_t wanted : choose_versions(policy, numbers))
      out.versions.push_back(*std::ranges::find(there, wanted, &FoundVersion::version));
    if (out.versions.empty())
      fail(Code::not_found, "{} has none of the versions that are asked for", watched.model.path);
    watched.found = true;
  } catch (...) {
    if (watched.found) return;  // an unreachable disk, or a folder that is being replaced
    out.versions.clear();
    out.error = current_error();
  }
  tell(manager_, std::move(out));
}

}  // namespace troupe
