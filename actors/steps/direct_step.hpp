// Steps past the scheduler. A graph that is one segment on one device of its client's task needs no ready counts: its
// steps go from the client to the device actor, and the device answers the client.
//
//   Session ──ExecuteSegment──▶ device ──done()──▶ Session
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include <troupe/actors/base/inspected.hpp>
#include <troupe/actors/steps/device_work.hpp>
#include <troupe/actors/steps/step.hpp>

namespace troupe {

class DirectStep;

// The direct steps of a session that have not been answered. Thread-safe.
class DirectSteps {
 public:
  // A step that is told to end before it runs never does; one that runs stops at its next node.
  void cancel(StepId step, const Error& error);
  void cancel_all(const Error& error);

 private:
  friend class DirectStep;
  void add(DirectStep& step);
  // Returns the error it was cancelled with, if it was.
  Error remove(DirectStep& step);

  std::mutex mutex_;
  DirectStep* first_ = nullptr;  // a list through the steps themselves
};

// A graph whose steps may be direct, lent by the scheduler to the graph's client.
class DirectGraph final : public LocalWork {
 public:
  DirectGraph(SessionId session, std::shared_ptr<LocalPartition> partition);
  // Can the steps of this graph be direct?
  static bool fits(const GraphHandle& graph);

  const Plan& plan() const { return partition_->partition->plan(); }
  Device& device() const { return *partition_->device.device; }
  const DeviceActor& actor() const { return partition_->device.actor; }
  // The step that runs now: what it waits for, and its node, by device. On any thread.
  void inspect(ActorDetails& out) const;

 private:
  friend class DirectStep;
  const SessionId session_;
  std::shared_ptr<LocalPartition> partition_;
  std::shared_ptr<PlanFrame> frame_;    // one is enough: the device runs one step after the other
  std::atomic<std::uint64_t> step_{0};  // that runs, or has run last
  static constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};
  std::atomic<std::uint64_t> number_{kNoNumber};  // its TrainingStep::number
};

class DirectStep final : public DeviceWork, public std::enable_shared_from_this<DirectStep> {
 public:
  DirectStep(std::shared_ptr<DirectGraph> graph, std::shared_ptr<DirectSteps> steps)
      : graph_(std::move(graph)), steps_(std::move(steps)) {}
  ~DirectStep() override;

  // Set before it is sent. Feeds must be all there.
  StepRequest request;

  // Sends it on its way.
  static void send(std::shared_ptr<DirectStep> step);

 private:
  friend class DirectSteps;
  std::uint64_t execute() override;
  MessageNote note() const override { return {.step = request.step.value}; }
  void trace_begin(Trace& trace) override;
  Error run_plan();
  void answer(StepResult result);
  // The device goes on meanwhile.
  void answer_when_done(StepResult result);
  TraceStep traced_step() const;

  std::shared_ptr<DirectGraph> graph_;
  std::shared_ptr<DirectSteps> steps_;
  Trace* trace_ = nullptr;  // that knows of the step
  // Guarded by the mutex of steps_.
  DirectStep* next_ = nullptr;
  DirectStep* previous_ = nullptr;
  bool listed_ = false;
  PlanFrame* running_ = nullptr;
  Error cancelled_;
};

}  // namespace troupe
