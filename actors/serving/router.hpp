// Sends requests to replicas: the tasks of job "serve" of a cluster, each with a server of the same models
// (replica.hpp). A door in front of it needs to know no more than of a ModelServer.
//
//   Member member = start_member(...);   // a task of job "router"
//   Router router(*member.task);         // before it joins
//   member.task->join(...);
//   router.find("digits")->start(...);
//
// A request goes to the replica with the fewest, or, with ServingRequest::key, to the one that the key prefers. What a
// replica has that is lost, or refuses because it is full, is sent to another (scheduler/serving/request_router.hpp).
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/serving/servable.hpp>
#include <troupe/scheduler/serving/request_router.hpp>
#include <troupe/scheduler/serving/servable_manager.hpp>
#include <troupe/scheduler/serving/version_choice.hpp>

namespace troupe {

class Router {
 public:
  // `task` must outlive it. Called on the router's thread, and must return soon: `on_change` when what replicas serve
  // has changed; `on_trouble` with the name and error of a replica that does not take a configuration.
  explicit Router(Task& task, const RequestRouter::Options& options = {}, std::function<void()> on_change = nullptr,
                  std::function<void(const std::string&)> on_trouble = nullptr);
  ~Router();  // requests under way end with unavailable
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // As ModelServer. Without a version, the stable one; without that, the newest that all replicas have that have the
  // model, or else the newest.
  ServableHandle find(std::string_view model, const VersionLabels::Wanted& wanted = {}) const;
  // Of each version the state nearest to ready that a replica has.
  std::vector<ServableManager::Status> status(const std::string& model) const;
  std::vector<std::string> models() const;
  std::size_t serving(const std::string& model) const;  // replicas with a version of it that is ready
  // Whether there is a replica, and each model has a version that is ready on one.
  bool ready() const;
  // Waits for that. False: not by then.
  bool await_ready(std::chrono::nanoseconds timeout) const;

  // From now on all replicas serve these models, and no others, also replicas that come later: or, with an error, none
  // has changed. Paths are those of the replicas, batches their own. Returns at once; calls `done` once, on any thread,
  // with no error when all replicas have taken the models; aborted while another call is under way; unavailable without
  // a replica; or what a replica says, with its name. One that fails or is silent when the others have decided is asked
  // for nothing until it has taken them.
  void configure(const std::vector<ServedModel>& models, std::function<void(const Error&)> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
