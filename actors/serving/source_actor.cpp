#include "troupe/actors/serving/source_actor.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <troupe/actors/serving/low_priority.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {
namespace {

// Sorts the versions, and throws if they cannot be served.
void check(FoundVersions& found) {
  std::ranges::sort(found.versions, {}, &FoundVersion::version);
  if (!found.versions.empty() && found.versions.front().version < 0)
    invalid_argument("the source found version {}: versions must not be negative", found.versions.front().version);
  const auto same = std::ranges::adjacent_find(found.versions, {}, &FoundVersion::version);
  if (same != found.versions.end())
    invalid_argument("the source found version {} twice, at '{}' and at '{}'", same->version, same->path,
                     std::next(same)->path);
}

}  // namespace

SourceActorImpl::behavior_type SourceActorImpl::make_behavior() {
  delayed_send(SourceActor(this), poll_, Tick{});
  return {
      [this](const WatchModels& message) {
        lower_priority();
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
      [this](const LookNow&) {
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
  const ServedModel& model = watched.model;
  Aspire out{.model = model};
  try {
    FoundVersions there = source_->look(model);
    check(there);
    std::vector<std::int64_t> numbers;
    for (const FoundVersion& found : there.versions) numbers.push_back(found.version);
    VersionPolicy policy = model.versions;
    if (there.labels) {
      out.labels = std::move(*there.labels);
      if (std::holds_alternative<LatestVersions>(policy)) {
        SpecificVersions published;
        for (const auto& [label, version] : out.labels) published.versions.push_back(version);
        policy = std::move(published);
      }
    }
    for (const std::int64_t wanted : choose_versions(policy, numbers))
      out.versions.push_back(*std::ranges::find(there.versions, wanted, &FoundVersion::version));
    if (there.versions.empty()) {
      watched.found = false;  // those that are served go
      fail(Code::not_found, "the source has no version of it");
    }
    if (out.versions.empty())
      fail(Code::not_found, "{} has none of the versions that are asked for",
           model.path.empty() ? model.name : model.path);
    watched.found = true;
  } catch (...) {
    if (watched.found) return;  // an unreachable disk, or a folder that is being replaced
    out.versions.clear();
    const Error why = current_error();
    out.error = Error(why.code(), without_secrets(why.message(), model.path));
  }
  tell(manager_, std::move(out));
}

}  // namespace troupe
