// One segment on a device: runs it, sends its outputs, and reports to the scheduler, which handles the report on the
// device's thread if idle.
#pragma once

#include <optional>

#include <troupe/actors/steps/device_work.hpp>
#include <troupe/actors/steps/scheduler_actor.hpp>
#include <troupe/actors/wire/cork.hpp>

namespace troupe {

class SegmentWork final : public DeviceWork, private Outbox {
 public:
  SegmentWork(ReadySegment segment, Device& device, std::shared_ptr<const Routes> routes, TrainingStep training,
              std::shared_ptr<const PulledVersions> pulled, SchedulerActor scheduler)
      : segment_(std::move(segment)),
        device_(device),
        routes_(std::move(routes)),
        training_(training),
        pulled_(std::move(pulled)),
        scheduler_(std::move(scheduler)) {}

  // Runs on the calling thread without a report: for the scheduler itself.
  Error run_here() { return run_plan(nullptr); }
  // Kept here: after the report the frame may belong to another step.
  bool paused() const override { return paused_; }
  std::uint64_t owner() const override { return segment_.step.session.value; }

 private:
  Error run_plan(Pauses* pauses);
  bool goes_to_sibling(std::uint32_t send) const;
  bool runs_in_order() const;  // runs entirely on the device's own thread
  std::uint64_t execute() override;
  MessageNote note() const override { return {.step = segment_.step.step.value}; }
  void report() override;
  void send(std::uint32_t send, Tensor tensor) override;
  void push(const PushTarget& target, Tensor gradient, Tensor indices) override;
  void ask(const AskTarget& target, Tensor rows) override;
  void call(const CallTarget& target, Variable& resource, Tensor values) override;
  void contribute(const ContributionTarget& target, Tensor tensor) override;
  void flush() override;

  ReadySegment segment_;
  Device& device_;
  std::shared_ptr<const Routes> routes_;
  TrainingStep training_;
  std::shared_ptr<const PulledVersions> pulled_;
  SchedulerActor scheduler_;
  std::optional<wire::Cork> cork_;
  Error error_;
  bool paused_ = false;
};

}  // namespace troupe
