// The coordinator of a training job, an actor on ps/0: membership, tokens, barriers. Coordinator implements the
// protocol.
#pragma once

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/base/explainer.hpp>
#include <troupe/actors/training/job_event.hpp>
#include <troupe/actors/training/job_links.hpp>
#include <troupe/actors/training/shard_keeper.hpp>
#include <troupe/scheduler/training/coordinator.hpp>

namespace troupe {

class CoordinatorActorImpl final : public Counted<CoordinatorActor> {
 public:
  struct Config {
    TaskName self;
    JobOptions options;
    std::shared_ptr<const ShardKeeper> keeper = nullptr;  // commits checkpoints; null: none
    std::function<void(const JobEvent&)> on_event = nullptr;
    std::function<void(const JobState&)> on_end = nullptr;  // on success or failure, before other tasks hear
  };
  CoordinatorActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config settings);
  behavior_type make_behavior() override;

 private:
  void escalate(const Error& why) override;
  void inspect(ActorDetails& out) const override;
  // Sends the protocol's messages. `error`: of the message from `from`; sent to a worker, ends the job if from a shard.
  void deliver(TrainingOutbox& out, const TaskName& from, const Error& error);
  void schedule_tick();
  void save_when_due(TrainingOutbox& out);
  void commit(const SaveRound& round);

  void tell_events();
  void tell_end();
  void tell_event(const JobEvent& event) const {
    if (on_event_) on_event_(event);
  }

  const std::shared_ptr<const ShardKeeper> keeper_;
  std::function<void(const JobEvent&)> on_event_;
  std::function<void(const JobState&)> on_end_;

  bool ended_ = false;                                                                       // and reported
  const std::shared_ptr<std::atomic<int>> written_ = std::make_shared<std::atomic<int>>(0);  // shared with the writer
  Coordinator coordinator_;
  Explainer explainer_{record().registry.why()};
  JobLinks links_;
  std::int64_t next_tick_ = 0;  // ns; 0: none scheduled
};

}  // namespace troupe
