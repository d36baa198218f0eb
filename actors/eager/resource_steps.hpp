// The calls of one queue or accumulator of eager mode. A call may wait, so it runs as a step: of a graph that has it
// alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/eager/values.hpp>
#include <troupe/graph/op_runner.hpp>

namespace troupe {

class Eager;

// Thread-safe. Calls of one kind share a session; the first compiles.
class ResourceSteps {
 public:
  // `source`: the node of the resource.
  ResourceSteps(Eager& eager, std::shared_ptr<const Node> source, std::shared_ptr<Variable> resource);
  ~ResourceSteps();
  ResourceSteps(const ResourceSteps&) = delete;
  ResourceSteps& operator=(const ResourceSteps&) = delete;

  // Returns the answer of a call, whose first input is the handle, as soon as there is one. Throws the call's error,
  // and failed_precondition after end().
  std::vector<Output> run(const NodeSpec& call);
  // Ends calls that wait as cancelled. Called before the Eager ends.
  void end();

 private:
  struct Step;
  std::shared_ptr<Step> step_for(const NodeSpec& call);

  Eager& eager_;
  const std::shared_ptr<const Node> source_;
  const std::shared_ptr<Variable> resource_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<Step>> steps_;
  bool ended_ = false;
};

// A queue or an accumulator: with its last Output its steps end, and what it holds is freed.
class EagerResource final : public EagerVariable {
 public:
  EagerResource(Eager& eager, std::shared_ptr<const Node> source, const std::shared_ptr<Variable>& resource)
      : EagerVariable(source, resource), steps_(std::make_shared<ResourceSteps>(eager, source, resource)) {}
  const std::shared_ptr<ResourceSteps>& steps() const { return steps_; }

 private:
  const std::shared_ptr<ResourceSteps> steps_;
};

}  // namespace troupe
