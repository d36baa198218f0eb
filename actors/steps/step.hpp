// Messages about steps between the client, the scheduler and the devices of one task. In-process only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/actors/steps/training_step.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/run/step_table.hpp>

namespace troupe {

// The step number for display: the training's, or the session's.
inline std::uint64_t number_of(const TrainingStep& training, StepId step) {
  return training.number.value_or(step.value);
}
// The same in words, naming the counter: "slot 1 of step 7" in a job with parameter servers, "step 7 of the training on
// /job:worker/task:0" in other training, "step 812 of session 3f2a".
std::string text_of(const TrainingStep& training, const StepKey& key, const TaskName& client);

class StepRequest;

// Holds back answers on this thread to steps other than `own` (null: to all steps) while it lives (ClientGate).
class KeptAnswers {
 public:
  using Answers = std::vector<std::function<void()>>;
  explicit KeptAnswers(const StepRequest* own) : own_(own), outer_(std::exchange(current_, this)) {}
  KeptAnswers(const KeptAnswers&) = delete;
  KeptAnswers& operator=(const KeptAnswers&) = delete;
  ~KeptAnswers() { current_ = outer_; }

  // Where to hold back the answer to `request`; null: answer directly.
  static Answers* of(const StepRequest& request) {
    return current_ && current_->own_ != &request ? &current_->answers_ : nullptr;
  }
  Answers take() { return std::move(answers_); }

 private:
  const StepRequest* own_;
  KeptAnswers* outer_;
  Answers answers_;
  static inline constinit thread_local KeptAnswers* current_ = nullptr;
};

// One execution requested by a client. Answers with an error if dropped because its task has shut down.
class StepRequest final : public LocalWork {
 public:
  StepRequest() = default;
  StepRequest(const StepRequest&) = delete;
  StepRequest& operator=(const StepRequest&) = delete;
  ~StepRequest() override {
    if (done) answer({.error = Error(Code::cancelled, "the task has shut down"), .fetches = {}});
  }

  // Only the first answer counts.
  void answer(StepResult result) {
    auto call = std::exchange(done, nullptr);
    if (!call) return;
    if (KeptAnswers::Answers* kept = KeptAnswers::of(*this))
      kept->push_back([call = std::move(call), result = std::move(result)] { call(result); });
    else
      call(std::move(result));
  }

  SessionId session;
  GraphId graph;
  StepId step;
  RandomKey random;
  TrainingStep training;
  std::vector<Tensor> feeds;
  std::vector<Tensor> fetches;           // one empty tensor per fetch, used as memory for the answer
  std::int64_t deadline_ns = 0;          // steady clock; 0 if none
  std::function<void(StepResult)> done;  // called once, on a runtime thread: keep it short; must not throw
};

// A step's call of a resource of its task, which the step keeps.
class CalledResource final : public LocalWork {
 public:
  CalledResource(const RendezvousKey& from, WaitingResource& resource, ResourceCall call)
      : from(from), resource(resource), call(std::move(call)) {}

  const RendezvousKey from;  // the arrival that waits for the answer
  WaitingResource& resource;
  ResourceCall call;
};

// A device of the task and the actor in front of it.
struct LocalDevice {
  std::shared_ptr<Device> device;
  DeviceActor actor;
};

// A partition ready to run.
struct LocalPartition final : public LocalWork {
  std::shared_ptr<RegisteredPartition> partition;
  LocalDevice device;
};

// A registered graph: this task's partitions and the other participants.
class GraphHandle final : public LocalWork {
 public:
  SessionId session;
  GraphId graph;
  TaskName client;
  std::vector<std::shared_ptr<LocalPartition>> partitions;
  std::vector<TaskName> participants;  // all tasks but the client's; used by the client's scheduler
  std::unordered_map<std::uint32_t, TaskName> edge_targets;  // for edges that leave this task
  std::vector<TaskName> shards;                              // task of each shard, if the graph pulls or pushes
};

}  // namespace troupe
