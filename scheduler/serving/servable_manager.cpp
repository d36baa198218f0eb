#include "troupe/scheduler/serving/servable_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace troupe {
namespace {

bool takes_memory(ServableState state) {
  switch (state) {
    case ServableState::loading:
    case ServableState::ready:
    case ServableState::quiescing:
    case ServableState::unloading:
      return true;
    case ServableState::fresh:
    case ServableState::unloaded:
    case ServableState::error:
      return false;
  }
  return false;
}

}  // namespace

std::string_view name(ServableState state) {
  switch (state) {
    case ServableState::fresh:
      return "New";
    case ServableState::loading:
      return "Loading";
    case ServableState::ready:
      return "Ready";
    case ServableState::quiescing:
      return "Quiescing";
    case ServableState::unloading:
      return "Unloading";
    case ServableState::unloaded:
      return "Unloaded";
    case ServableState::error:
      return "Error";
  }
  return "unknown";
}

std::string ServableId::to_string() const { return fmt::format("{}/{}", model, version); }

ServableManager::ServableManager(const Options& options) : options_(options) {
  if (options.loads_at_once < 1 || options.attempts < 1 || options.first_pause < 1 || options.longest_pause < 1)
    invalid_argument("loads_at_once, attempts, first_pause and longest_pause must be at least 1, not {}, {}, {} and {}",
                     options.loads_at_once, options.attempts, options.first_pause, options.longest_pause);
}

void ServableManager::aspire(const std::string& model, std::span<const Aspired> versions, Nanoseconds now) {
  std::set<std::int64_t> wanted;
  for (const Aspired& a : versions) {
    if (a.version < 0) invalid_argument("model '{}': version {} is negative", model, a.version);
    if (!wanted.insert(a.version).second) invalid_argument("model '{}': version {} is given twice", model, a.version);
  }
  Versions& own = models_[model];
  for (auto& [number, version] : own) {
    version.aspired = wanted.contains(number);
    if (version.aspired && version.state == ServableState::quiescing && !version.idle)
      version.state = ServableState::ready;
    if (!version.aspired && (version.state == ServableState::fresh || version.state == ServableState::error))
      end(own, version);
  }
  for (const Aspired& a : versions) {
    Version& version = own.try_emplace(a.version, Version{.bytes = a.bytes, .not_before = now}).first->second;
    if (version.state == ServableState::unloaded) version = {.bytes = a.bytes, .not_before = now};
    if (version.state == ServableState::fresh) version.bytes = a.bytes;
  }
  if (own.empty()) models_.erase(model);
}

void ServableManager::retry(const ServableId& id, Nanoseconds now) {
  in_state(id, ServableState::error, "be tried again") = {.bytes = models_.find(id.model)->second.at(id.version).bytes,
                                                          .not_before = now};
}

void ServableManager::end(Versions& versions, Version& version) {
  version.state = ServableState::unloaded;
  version.ended = ++ended_;
  std::vector<std::pair<std::uint64_t, std::int64_t>> all;
  for (const auto& [number, v] : versions)
    if (v.state == ServableState::unloaded) all.emplace_back(v.ended, number);
  if (all.size() > kMostEnded) versions.erase(std::ranges::min(all).second);
}

// What is not aspired any more stops to be served, as far as the transition allows.
void ServableManager::retire(Versions& versions) const {
  bool any_aspired = false, aspired_ready = false;
  for (const auto& [number, v] : versions) {
    any_aspired = any_aspired || v.aspired;
    aspired_ready = aspired_ready || (v.aspired && v.state == ServableState::ready);
  }
  bool keep = options_.transition == Transition::preserve_availability && any_aspired && !aspired_ready;
  for (auto v = versions.rbegin(); v != versions.rend(); ++v) {
    if (v->second.aspired || v->second.state != ServableState::ready || std::exchange(keep, false)) continue;
    v->second.state = ServableState::quiescing;
    v->second.idle = false;
  }
}

bool ServableManager::may_load(const Versions& versions) const {
  return options_.transition == Transition::preserve_availability || std::ranges::none_of(versions, [](const auto& v) {
           return !v.second.aspired && takes_memory(v.second.state);
         });
}

std::vector<ServableManager::Action> ServableManager::due(Nanoseconds now) {
  std::vector<Action> out;
  now_ = now;
  for (auto model = models_.begin(); model != models_.end();) {
    Versions& versions = model->second;
    retire(versions);
    for (auto& [number, version] : versions) {
      if (version.state != ServableState::quiescing || !version.idle) continue;
      version.state = ServableState::unloading;
      out.push_back({Action::unload, {model->first, number}});
    }
    const bool gone = std::ranges::all_of(
        versions, [](const auto& v) { return !v.second.aspired && v.second.state == ServableState::unloaded; });
    model = gone ? models_.erase(model) : std::next(model);
  }
  // Models without a ready version first; of each, the newest version first.
  struct Candidate {
    bool has_ready;
    const std::string* model;
    std::int64_t number;
    Version* version;
  };
  std::vector<Candidate> candidates;
  for (auto& [model, versions] : models_) {
    const bool has_ready =
        std::ranges::any_of(versions, [](const auto& v) { return v.second.state == ServableState::ready; });
    for (auto& [number, version] : versions)
      if (version.state == ServableState::fresh && version.not_before <= now)
        candidates.push_back({has_ready, &model, number, &version});
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.has_ready, std::string_view(*a.model), -a.number) <
           std::tuple(b.has_ready, std::string_view(*b.model), -b.number);
  });
  std::size_t free_places = options_.loads_at_once - std::min(options_.loads_at_once, loading());
  for (const Candidate& c : candidates) {
    const std::size_t used = bytes();
    if (!may_load(models_.find(*c.model)->second)) {
      c.version->error = {Code::unavailable, "waits until versions that are no longer wanted are unloaded"};
    } else if (c.version->bytes > options_.memory - std::min(used, options_.memory)) {
      c.version->error = {Code::resource_exhausted,
                          fmt::format("needs {} bytes; {} of {} are taken", c.version->bytes, used, options_.memory)};
    } else if (free_places > 0) {
      c.version->state = ServableState::loading;
      ++c.version->attempts;
      out.push_back({Action::load, {*c.model, c.number}});
      --free_places;
    }
  }
  return out;
}

std::optional<Nanoseconds> ServableManager::next_attempt() const {
  std::optional<Nanoseconds> out;
  for (const auto& [model, versions] : models_)
    for (const auto& [number, v] : versions)
      if (v.state == ServableState::fresh && v.attempts > 0) out = std::min(out.value_or(v.not_before), v.not_before);
  return out;
}

ServableManager::Version& ServableManager::in_state(const ServableId& id, ServableState state, std::string_view event) {
  const auto versions = models_.find(id.model);
  if (versions == models_.end() || !versions->second.contains(id.version))
    fail(Code::not_found, "there is no servable {}", id.to_string());
  Version& version = versions->second.at(id.version);
  if (version.state != state)
    fail(Code::failed_precondition, "servable {} is {} and cannot {}: it would have to be {}", id.to_string(),
         name(version.state), event, name(state));
  return version;
}

void ServableManager::loaded(const ServableId& id, std::size_t bytes_now, Nanoseconds /*now*/) {
  Version& version = in_state(id, ServableState::loading, "be loaded");
  const std::size_t others = bytes() - version.bytes, room = options_.memory - std::min(others, options_.memory);
  version.error = {};
  version.bytes = bytes_now;
  version.state = version.aspired ? ServableState::ready : ServableState::quiescing;
  version.idle = true;
  if (bytes_now <= room) return;
  version.error = {Code::resource_exhausted, fmt::format("took {} bytes, more than its files told; {} of {} were free",
                                                         bytes_now, room, options_.memory)};
  version.attempts = options_.attempts;
  version.state = ServableState::quiescing;
}

void ServableManager::failed(const ServableId& id, Error error, Nanoseconds now) {
  Version& version = in_state(id, ServableState::loading, "fail to load");
  version.error = std::move(error);
  if (!version.aspired) {
    end(models_.find(id.model)->second, version);
  } else if (version.attempts >= options_.attempts) {
    version.state = ServableState::error;
  } else {
    Nanoseconds pause = options_.first_pause;
    for (int i = 1; i < version.attempts && pause < options_.longest_pause; ++i) pause *= 2;
    version.not_before = now + std::min(pause, options_.longest_pause);
    version.state = ServableState::fresh;
  }
}

void ServableManager::unloaded(const ServableId& id, Nanoseconds now) {
  Version& version = in_state(id, ServableState::unloading, "be unloaded");
  if (!version.aspired)
    end(models_.find(id.model)->second, version);
  else if (version.error)  // did not fit
    version.state = ServableState::error;
  else
    version = {.bytes = version.bytes, .not_before = now};
}

bool ServableManager::quiesced(const ServableId& id) {
  const auto versions = models_.find(id.model);
  if (versions != models_.end())
    if (const auto v = versions->second.find(id.version);
        v != versions->second.end() && v->second.state == ServableState::ready)
      return false;
  in_state(id, ServableState::quiescing, "be free of requests").idle = true;
  return true;
}

std::vector<std::int64_t> ServableManager::ready(std::string_view model) const {
  std::vector<std::int64_t> out;
  if (const auto versions = models_.find(model); versions != models_.end())
    for (const auto& [number, v] : versions->second)
      if (v.state == ServableState::ready) out.push_back(number);
  return out;
}

std::vector<ServableManager::Status> ServableManager::status(std::string_view model) const {
  std::vector<Status> out;
  if (const auto versions = models_.find(model); versions != models_.end())
    for (const auto& [number, v] : versions->second)
      out.push_back({{versions->first, number}, v.state, v.aspired, v.bytes, v.attempts, v.error});
  return out;
}

std::vector<ServableManager::Status> ServableManager::status() const {
  std::vector<Status> out;
  for (const auto& [model, versions] : models_)
    for (Status& s : status(model)) out.push_back(std::move(s));
  return out;
}

std::size_t ServableManager::bytes() const {
  std::size_t out = 0;
  for (const auto& [model, versions] : models_)
    for (const auto& [number, v] : versions)
      if (takes_memory(v.state)) out += v.bytes;
  return out;
}

std::size_t ServableManager::loading() const {
  std::size_t out = 0;
  for (const auto& [model, versions] : models_)
    out += static_cast<std::size_t>(
        std::ranges::count_if(versions, [](const auto& v) { return v.second.state == ServableState::loading; }));
  return out;
}

bool ServableManager::settled() const {
  for (const auto& [model, versions] : models_)
    for (const auto& [number, v] : versions)
      if (v.state == ServableState::loading || v.state == ServableState::unloading ||
          v.state == ServableState::quiescing || (v.state == ServableState::fresh && v.not_before > now_))
        return false;
  return true;
}

}  // namespace troupe
