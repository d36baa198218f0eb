#include "troupe/actors/serving/configured_models.hpp"

#include <utility>

#include <troupe/messages/overloaded.hpp>

namespace troupe {

std::vector<ConfiguredModel> configured_models(const std::vector<ServedModel>& models) {
  std::vector<ConfiguredModel> out;
  for (const ServedModel& model : models) {
    static_cast<void>(choose_versions(model.versions, {}));
    ConfiguredModel& made = out.emplace_back();
    made.name = model.name;
    made.path = model.path;
    std::visit(Overloaded{[&](const LatestVersions& latest) { made.latest = latest.count; },
                          [&](const AllVersions&) { made.all = true; },
                          [&](const SpecificVersions& specific) { made.versions = specific.versions; }},
               model.versions);
    for (const auto& [label, version] : model.labels) {
      made.labels.push_back(label);
      made.labelled.push_back(version);
    }
  }
  return out;
}

std::vector<ServedModel> served_models(const std::vector<ConfiguredModel>& models) {
  std::vector<ServedModel> out;
  for (const ConfiguredModel& model : models) {
    ServedModel& made = out.emplace_back();
    made.name = model.name;
    made.path = model.path;
    if (model.all)
      made.versions = AllVersions{};
    else if (model.latest > 0)
      made.versions = LatestVersions{model.latest};
    else
      made.versions = SpecificVersions{model.versions};
    if (model.labels.size() != model.labelled.size())
      invalid_argument("model '{}' of a router's configuration has {} labels for {} versions", model.name,
                       model.labels.size(), model.labelled.size());
    for (std::size_t i = 0; i < model.labels.size(); ++i) made.labels.emplace(model.labels[i], model.labelled[i]);
  }
  return out;
}

}  // namespace troupe
