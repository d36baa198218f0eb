// Serves models: loads their versions, gives them to requests, and unloads them
// (scheduler/serving/servable_manager.hpp).
//
//   Task task;
//   ModelServer server(task);
//   server.configure({{.name = "digits", .path = "models/digits"}});  // a directory with versions 1, 2, ...
//   server.await_ready("digits", std::chrono::seconds(10));
//   server.find("digits")->start(...);                                // servable.hpp
//
//   source actor ── Aspire ──▶ manager actor ── LoadServable ──▶ loader actor, one for each version, with a device
//   (watches paths)                 │                              and a batcher for each signature of its own
//                                   └── publishes what is ready: find() asks no actor
//
// Versions may come from elsewhere than paths, and be made otherwise than from files: version_source.hpp,
// model_loader.hpp.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/serving/model_loader.hpp>
#include <troupe/actors/serving/servable.hpp>
#include <troupe/actors/serving/version_source.hpp>
#include <troupe/scheduler/serving/batch_queue.hpp>
#include <troupe/scheduler/serving/servable_manager.hpp>
#include <troupe/scheduler/serving/version_choice.hpp>

namespace troupe {

// A model that is served: its versions are the numbered directories (or files NUMBER.onnx) in `path`, each of a format
// of actors/model/any_model.hpp. A path that is itself a model is its version 1. A program's own source and loader may
// take it otherwise, or not need it.
struct ServedModel {
  std::string name{};
  std::string path{};
  VersionPolicy versions = LatestVersions{};
  std::map<std::string, std::int64_t> labels{};
  std::optional<BatchQueue::Options> batching{};  // none: each request is a step
};

struct ModelServerOptions {
  ServableManager::Options manager{};
  std::chrono::nanoseconds poll = std::chrono::seconds(1);  // how often paths are looked at
  int threads = 0;                                          // of each version's device; 0: all cores
  // Null: a PathSource, a FormatLoader of the task's ops. Kept until their last call has returned, possibly after the
  // server has ended.
  std::shared_ptr<VersionSource> source{};
  std::shared_ptr<ModelLoader> loader{};
  // Called on the manager's thread when the state of a version changes, or its error; must return soon.
  std::function<void(const ServableManager::Status&)> on_state{};
};

class ModelServer {
 public:
  // `task` must outlive the server.
  explicit ModelServer(Task& task, const ModelServerOptions& options = {});
  ~ModelServer();  // unloads all, after the last handles are gone
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  // From now on these models are served, and no others. Throws invalid_argument, and changes nothing, for a name that
  // is empty or given twice, a path that is not given to a PathSource, and limits of batches that do not fit;
  // failed_precondition for a label that moves to a version that is not ready, unless no version of the model is.
  void configure(std::vector<ServedModel> models);
  // Throws what configure() would, and changes nothing.
  void check(const std::vector<ServedModel>& models) const;
  // As configure(), but labels may move to any version: requests for them find nothing until it is ready.
  void configure_with_any_labels(std::vector<ServedModel> models);
  std::vector<ServedModel> models() const;

  // The version that is meant. Throws not_found for a model, version or label that is not there; unavailable for a
  // model without a ready version, saying why; invalid_argument for a version and a label.
  ServableHandle find(std::string_view model, const VersionLabels::Wanted& wanted = {}) const;
  // Versions of a model, ascending. Throws not_found.
  std::vector<ServableManager::Status> status(const std::string& model) const;
  std::vector<ServableManager::Status> status() const;
  // Labels of a model, where they are now: configured and published ones.
  std::map<std::string, std::int64_t> labels(const std::string& model) const;
  // Whether each configured model has a ready version.
  bool ready() const;
  // Waits until the model has a ready version. Throws deadline_exceeded with why it has none.
  void await_ready(const std::string& model, std::chrono::nanoseconds timeout) const;
  // Waits until all versions of the configured models are ready, or have a reason why not. False: not by then.
  bool await_decided(std::chrono::nanoseconds timeout) const;
  // Its source looks now, and not only after the next pause: for programs that know of a change. Returns at once.
  void look_now();
  // A version in state Error is tried again. Throws not_found or failed_precondition.
  void retry(const ServableId& id);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
