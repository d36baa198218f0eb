// Models of a configuration as frames carry them from routers to replicas, without how requests are joined.
#pragma once

#include <vector>

#include <troupe/actors/serving/model_server.hpp>
#include <troupe/messages/configured_model.hpp>

namespace troupe {

// Throws invalid_argument for the latest 0 versions.
std::vector<ConfiguredModel> configured_models(const std::vector<ServedModel>& models);
// Throws invalid_argument if labels have not one version each.
std::vector<ServedModel> served_models(const std::vector<ConfiguredModel>& models);

}  // namespace troupe
