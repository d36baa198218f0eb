#include "troupe/scheduler/serving/version_choice.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {

std::vector<std::int64_t> choose_versions(const VersionPolicy& policy, std::span<const std::int64_t> there) {
  std::vector<std::int64_t> out(there.begin(), there.end());
  std::ranges::sort(out);
  if (const auto* latest = std::get_if<LatestVersions>(&policy)) {
    if (latest->count < 1) invalid_argument("the latest 0 versions are none: serve at least 1, or leave out the model");
    if (out.size() > latest->count) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(latest->count));
  } else if (const auto* specific = std::get_if<SpecificVersions>(&policy)) {
    std::erase_if(out, [&](std::int64_t version) { return std::ranges::count(specific->versions, version) == 0; });
  }
  return out;
}

void VersionLabels::assign(std::map<std::string, std::int64_t> labels, std::span<const std::int64_t> ready) {
  for (const auto& [label, version] : labels) {
    const auto known = labels_.find(label);
    if ((known == labels_.end() || known->second != version) && std::ranges::count(ready, version) == 0)
      fail(Code::failed_precondition, "label '{}' cannot name version {}, which is not ready: [{}] are", label, version,
           fmt::join(ready, ", "));
  }
  labels_ = std::move(labels);
}

void VersionLabels::follow(const std::map<std::string, std::int64_t>& published, std::span<const std::int64_t> ready) {
  std::erase_if(followed_, [&](const auto& label) { return !published.contains(label.first); });
  for (const auto& [label, version] : published)
    if (std::ranges::count(ready, version) > 0) followed_[label] = version;
}

std::map<std::string, std::int64_t> VersionLabels::all() const {
  std::map<std::string, std::int64_t> out = labels_;
  out.insert(followed_.begin(), followed_.end());
  return out;
}

std::int64_t VersionLabels::resolve(std::string_view model, const Wanted& wanted,
                                    std::span<const std::int64_t> ready) const {
  if (wanted.version && !wanted.label.empty())
    invalid_argument("model '{}': version {} and label '{}' are asked for: name one of them", model, *wanted.version,
                     wanted.label);
  std::optional<std::int64_t> version = wanted.version;
  if (!wanted.label.empty()) {
    const std::map<std::string, std::int64_t> labels = all();
    const auto found = labels.find(wanted.label);
    if (found == labels.end()) fail(Code::not_found, "model '{}' has no label '{}'", model, wanted.label);
    version = found->second;
  }
  if (!version) {
    if (ready.empty()) fail(Code::unavailable, "model '{}' has no version that is ready", model);
    const auto stable = followed_.find("stable");
    const bool there = stable != followed_.end() && std::ranges::count(ready, stable->second) > 0;
    return there ? stable->second : ready.back();
  }
  if (std::ranges::count(ready, *version) == 0)
    fail(Code::not_found, "model '{}' has no version {} that is ready: [{}] are", model, *version,
         fmt::join(ready, ", "));
  return *version;
}

}  // namespace troupe
