#include "troupe/actors/serving/serving_directory.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

std::shared_ptr<const ServingDirectory::Models> ServingDirectory::current() const {
  const std::lock_guard lock(pointer_);
  return models_;
}

// The last reference to the old ones may end here, and with it handles: without the lock.
void ServingDirectory::replace(std::shared_ptr<const Models> models) {
  const std::lock_guard lock(pointer_);
  models_.swap(models);
}

std::shared_ptr<const ServingDirectory::Models> ServingDirectory::configured(
    const Models& before, const std::map<std::string, std::map<std::string, std::int64_t>>& labels_by_model,
    LabelRule rule) {
  auto after = std::make_shared<Models>();
  for (const auto& [name, labels] : labels_by_model) {
    const auto old = before.find(name);
    auto model = old == before.end() ? std::make_shared<Model>() : std::make_shared<Model>(*old->second);
    // Before the first version is ready, its labels cannot name one that is.
    std::vector<std::int64_t> named = model->ready;
    if (named.empty() || rule == LabelRule::any)
      for (const auto& [label, version] : labels) named.push_back(version);
    std::ranges::sort(named);
    model->labels.assign(labels, named);
    after->emplace(name, std::move(model));
  }
  return after;
}

void ServingDirectory::configure(const std::map<std::string, std::map<std::string, std::int64_t>>& labels_by_model,
                                 LabelRule rule) {
  const std::lock_guard lock(writing_);
  replace(configured(*current(), labels_by_model, rule));
}

void ServingDirectory::check(const std::map<std::string, std::map<std::string, std::int64_t>>& labels_by_model) const {
  static_cast<void>(configured(*current(), labels_by_model, LabelRule::ready));
}

void ServingDirectory::publish(const std::string& name, std::map<std::int64_t, ServableHandle> ready, Error why,
                               const std::map<std::string, std::int64_t>& labels, std::optional<std::int64_t> usual) {
  const std::lock_guard lock(writing_);
  const auto before = current();
  const auto old = before->find(name);
  if (old == before->end()) return;
  auto model = std::make_shared<Model>(*old->second);
  model->handles = std::move(ready);
  model->ready.clear();
  for (const auto& [version, handle] : model->handles) model->ready.push_back(version);
  model->why = std::move(why);
  model->labels.follow(labels, model->ready);
  model->usual = usual;
  auto after = std::make_shared<Models>(*before);
  (*after)[name] = std::move(model);
  replace(std::move(after));
}

ServableHandle ServingDirectory::find(std::string_view model, const VersionLabels::Wanted& wanted) const {
  const auto models = current();
  const auto found = models->find(model);
  if (found == models->end()) fail(Code::not_found, "no model '{}' is served", model);
  const Model& served = *found->second;
  if (served.ready.empty() && served.why)
    fail(Code::unavailable, "model '{}' has no version that is ready: {}", model, served.why.message());
  VersionLabels::Wanted meant = wanted;
  if (!meant.version && meant.label.empty() && !served.labels.has_stable()) meant.version = served.usual;
  return served.handles.at(served.labels.resolve(model, meant, served.ready));
}

std::map<std::string, std::int64_t> ServingDirectory::labels(const std::string& model) const {
  const auto models = current();
  const auto found = models->find(model);
  return found == models->end() ? std::map<std::string, std::int64_t>() : found->second->labels.all();
}

bool ServingDirectory::all_ready() const {
  const auto models = current();
  return std::ranges::none_of(*models, [](const auto& m) { return m.second->ready.empty(); });
}

}  // namespace troupe
