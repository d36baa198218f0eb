// What a door asks of a server of models.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/serving/servable.hpp>
#include <troupe/actors/serving/serving_statistics.hpp>
#include <troupe/scheduler/serving/version_choice.hpp>

namespace troupe {

class Router;

// All may be called on any thread.
struct ServedModels {
  std::function<ServableHandle(std::string_view model, const VersionLabels::Wanted& wanted)> find{};
  std::function<std::vector<ServableManager::Status>(const std::string& model)> status{};
  std::function<bool()> ready{};
  // Other models from now on. Calls `done` once, on any thread, possibly before it returns: with an error, nothing has
  // changed, or it says what has. Null: clients may not.
  std::function<void(std::vector<ServedModel> models, std::function<void(const Error&)> done)> configure{};
  std::function<std::string(const std::string& model)> path_of{};  // RestDoor::Options::path_of
  Trace* trace = nullptr;                                          // of the task, where requests appear; null: nowhere
  // The server must outlive what is made of it.
  static ServedModels of(const ModelServer& server);  // without configure
  static ServedModels of(Router& router);             // with configure
  // Versions of a model that requests which say this mean: one, or all. Throws not_found.
  std::vector<ServableManager::Status> status_of(const std::string& model, const VersionLabels::Wanted& wanted) const;
};

// Makes something of a request for the servable. Counts how long it took, or that it failed.
template <class Parse>
auto parsed(const Servable& servable, const Parse& parse) try {
  const Nanoseconds began = steady_now_ns();
  auto out = parse();
  if (ServingStatistics* statistics = servable.statistics())
    statistics->add(ServingStatistics::Stage::parse, steady_now_ns() - began);
  return out;
} catch (...) {
  if (ServingStatistics* statistics = servable.statistics()) statistics->refused(current_error().code());
  throw;
}

// Whether an answer is made in a moment: by whoever has the outputs.
bool small(const std::map<std::string, Tensor>& outputs);

}  // namespace troupe
