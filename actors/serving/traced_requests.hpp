// Requests for models in the trace of a task: each is a slice on the track of the door that it came through, from its
// arrival to its answer. Arrows lead from it to the steps that compute it, or to the request that a replica makes of
// it.
//
//   const TracedDoor door(&task.actors().trace(), "REST");
//   const auto traced = door.arrival();             // null while the task is not traced: that costs one relaxed load
//   if (traced) traced->start(*servable, request);
//   servable->start(std::move(request), [traced](const ServingResult& result) { if (traced) traced->end(result); });
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/serving/servable.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/scheduler/trace/request_figures.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

// A request that arrives when this is made. Used by one thread at a time.
class TracedRequest {
 public:
  TracedRequest(Trace& trace, std::uint32_t track);
  // Notes what it asks for, and links the steps of `request` to it.
  void start(const Servable& servable, ServingRequest& request);
  // Records the request, which is answered now; not one that was not started.
  void end(const ServingResult& result) const;
  std::uint64_t key() const { return key_; }

 private:
  Trace& trace_;
  const std::uint32_t track_;
  const std::uint64_t key_;
  const Nanoseconds arrived_;
  std::string servable_, signature_;
  RequestFigures figures_;
};

class TracedDoor {
 public:
  // `trace` must outlive it and its requests; null: nothing is recorded.
  TracedDoor(Trace* trace, std::string name) : trace_(trace) {
    if (trace_) track_ = trace_->add_track(std::move(name));
  }
  std::shared_ptr<TracedRequest> arrival() const {
    return trace_ && trace_->on() ? std::make_shared<TracedRequest>(*trace_, track_) : nullptr;
  }

 private:
  Trace* const trace_;
  std::uint32_t track_ = 0;
};

// An arrow from a request, ServingRequest::traced, to the step that computes it and was started at that time.
void trace_step(Trace& trace, std::uint64_t request, const TraceStep& step, Nanoseconds started);
// An end of the arrow from a router's request to a replica's, now. `number`: AskModel::request; `other`: the task at
// the other end. A request that is not recorded has key 0: its arrow is cut, and not lost.
void trace_ask(Trace& trace, TraceKind end, std::uint64_t request, std::uint64_t number, const TaskName& other);

}  // namespace troupe
