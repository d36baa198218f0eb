// Steps that bypass the scheduler. A graph with a single segment, on a device of its client's task, needs no ready
// counts: steps go from the client directly to the device actor, and the device answers the client.
//
//   Session ──ExecuteSegment──▶ device ──done()──▶ Session
//
// A client that waits for its step runs it on its own thread, if the device has nothing to do: no thread is woken.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include <troupe/actors/base/inspected.hpp>
#include <troupe/actors/steps/device_work.hpp>
#include <troupe/actors/steps/step.hpp>

namespace troupe {

class DirectStep;

// The unanswered direct steps of a session. Thread-safe.
class DirectSteps {
 public:
  // Cancels a step: one that has not started never runs; a running one stops at its next node.
  void cancel(StepId step, const Error& error);
  void cancel_all(const Error& error);

 private:
  friend class DirectStep;
  void add(DirectStep& step);
  // Returns the error if the step was cancelled.
  Error remove(DirectStep& step);

  std::mutex mutex_;
  DirectStep* first_ = nullptr;  // intrusive list through the steps
};

// Graphs of one call for different shapes, of which one runs at a time: only the last one that ran keeps the memory of
// its values from step to step. Used by the thread of their device.
struct CallMemory {
  std::weak_ptr<PlanFrame> last;
  const PlanFrame* frame = nullptr;  // the same, to be compared alone
};

// A graph that may run direct steps, lent by the scheduler to its client.
class DirectGraph final : public LocalWork {
 public:
  DirectGraph(SessionId session, std::shared_ptr<LocalPartition> partition);
  // Whether the steps of this graph can be direct.
  static bool fits(const GraphHandle& graph);

  const Plan& plan() const { return partition_->partition->plan(); }
  Device& device() const { return *partition_->device.device; }
  const DeviceActor& actor() const { return partition_->device.actor; }
  // Call before its first step.
  void share(std::shared_ptr<CallMemory> memory) { memory_ = std::move(memory); }
  // Adds the running step, its waits, and its current node by device. Any thread.
  void inspect(ActorDetails& out) const;

 private:
  friend class DirectStep;
  void take_memory();

  const SessionId session_;
  std::shared_ptr<LocalPartition> partition_;
  std::shared_ptr<CallMemory> memory_;  // null: alone
  std::shared_ptr<PlanFrame> frame_;    // one suffices: the device runs steps one at a time
  std::atomic<std::uint64_t> step_{0};  // running, or last run
  static constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};
  std::atomic<std::uint64_t> number_{kNoNumber};  // its TrainingStep::number
};

class DirectStep final : public DeviceWork, public std::enable_shared_from_this<DirectStep> {
 public:
  DirectStep(std::shared_ptr<DirectGraph> graph, std::shared_ptr<DirectSteps> steps)
      : graph_(std::move(graph)), steps_(std::move(steps)) {}
  ~DirectStep() override;

  bool paused() const override { return paused_; }
  std::uint64_t owner() const override { return graph_->session_.value; }

  // Set before sending. All feeds must be present.
  StepRequest request;

  // Sends the step to its device; `here`: the calling thread may run it before this returns.
  static void send(std::shared_ptr<DirectStep> step, bool here);

 private:
  friend class DirectSteps;
  std::uint64_t execute() override;
  MessageNote note() const override { return {.step = request.step.value}; }
  void trace_begin(Trace& trace) override;
  // Returns false if the step was cancelled before.
  bool begin();
  Error run_plan();
  void answer(StepResult result);
  // Lets the device continue meanwhile.
  void answer_when_done(StepResult result);
  TraceStep traced_step() const;

  std::shared_ptr<DirectGraph> graph_;
  std::shared_ptr<DirectSteps> steps_;
  Trace* trace_ = nullptr;  // the trace that contains the step
  bool paused_ = false;
  // Guarded by the mutex of steps_.
  DirectStep* next_ = nullptr;
  DirectStep* previous_ = nullptr;
  bool listed_ = false;
  PlanFrame* running_ = nullptr;
  Error cancelled_;
};

}  // namespace troupe
