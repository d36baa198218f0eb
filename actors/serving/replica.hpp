// Answers requests that routers of the cluster send on (router.hpp), with the models of a server.
//
//   Member member = start_member(...);                 // a task of job "serve"
//   ModelServer server(*member.task);
//   Replica replica(*member.task, server);             // before it joins
//   member.task->join(...);
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/serving/model_server.hpp>

namespace troupe {

class Replica {
 public:
  // Completes the models of a router's configuration, for example with batches. May throw: then they are not served.
  using Complete = std::function<std::vector<ServedModel>(std::vector<ServedModel> models)>;
  // Both must outlive it. Routers may configure the server. `complete`: called on the replica's thread; null: nothing.
  Replica(Task& task, ModelServer& server, Complete complete = nullptr);
  ~Replica();  // requests that it has end with unavailable: routers send them to others
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Goes on for `farewell`, or until all routers are gone; then tells them that it serves no more, and finishes the
  // requests that it has. False: not all within `timeout`.
  bool drain(std::chrono::nanoseconds farewell, std::chrono::nanoseconds timeout);
  // Tells routers what has changed: call it when a version comes or goes, or models do.
  void refresh();
  // Calls `change`, which configures the server, unless a router has: false, since other replicas have the same then.
  bool change(const std::function<void()>& change);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
