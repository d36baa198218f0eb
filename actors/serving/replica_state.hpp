// What a replica serves, as it tells routers (ReplicaModels).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/scheduler/serving/servable_manager.hpp>

namespace troupe {

struct ReplicaState {
  struct Version {
    ServableManager::Status status{};
    std::map<std::string, ModelSignature> signatures{};  // of one that is ready
  };
  struct Model {
    std::map<std::string, std::int64_t> labels{};
    Error why{};  // it has no ready version
    std::vector<Version> versions{};
  };
  std::map<std::string, Model> models{};
};

ReplicaState state_of(const ModelServer& server);

std::string to_json(const ReplicaState& state);
// Throws data_loss for what is no such text.
ReplicaState parse_replica_state(std::string_view text);

}  // namespace troupe
