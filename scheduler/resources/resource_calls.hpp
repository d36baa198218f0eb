// The calls of steps that wait for resources of this task: whose answer belongs to which step, and which calls end with
// a step. A plain class, driven by the scheduler actor. Resources outlive the steps that call them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <troupe/messages/ids.hpp>
#include <troupe/scheduler/resources/waiting_resource.hpp>

namespace troupe {

class ResourceCalls {
 public:
  // For the arrival that waits for it.
  struct Answer {
    RendezvousKey to;
    std::vector<Tensor> values{};
    Error error{};
  };
  using Answers = std::vector<Answer>;

  // Returns what can be answered now: perhaps this call, and calls of other steps.
  Answers call(const RendezvousKey& from, WaitingResource& resource, ResourceCall call);
  // A step has ended: its calls are not answered. Returns the answers of others, which may have waited behind them.
  Answers end_step(SessionId session, StepId step);
  void clear() { waiting_.clear(); }

  bool empty() const { return waiting_.empty(); }
  // What the call waits for, "" if it does not: "dequeue of 'queue', a FIFOQueue(...): 0 of 5 elements (0 bytes),
  // open; ...".
  std::string describe(const RendezvousKey& from) const;

 private:
  struct Waiting {
    RendezvousKey from;
    WaitingResource* resource;
    ResourceOperation operation;
  };
  Answers matched(CallAnswers answers);

  std::map<CallId, Waiting> waiting_;
  CallId last_ = 0;
};

}  // namespace troupe
