// A parameter shard: mailboxes gradients, applies them, answers pulls. The protocol is ShardState.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/training/job_links.hpp>
#include <troupe/actors/wire/cork.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

class ShardActorImpl final : public Counted<ShardActor> {
 public:
  struct Config {
    TaskName self;
    ShardOptions options;
    std::vector<SliceSpec> slices;
    std::shared_ptr<ShardStore> store;
    // Once: the job is over (ok) or has failed; what is in the values then.
    std::function<void(Error, const ShardCounters&, const ShardState::Cut&)> ended;
    std::function<void(const Joined&)> joined = nullptr;  // what the coordinator has answered; null: it is not asked
    // Before the first frame of the job: what the shard begins with is known. Null: `options` are right from the start.
    std::function<void(ShardOptions&)> prepare = nullptr;
    // The store is as it is to be saved, while this runs; Saved is to be said when that is done. Null: nothing can be
    // saved.
    std::function<void(const Save&, const ShardState::Cut&)> save = nullptr;
    // What went into versions, in order; `flush`: it has to last, with a checkpoint or because the job is over. Null:
    // nobody asks.
    std::function<void(std::vector<Provenance>, bool flush)> history = nullptr;
  };
  ShardActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config settings);
  behavior_type make_behavior() override;
  // What a run of messages sends to a task leaves together: the small variables of a version, the news of small pushes.
  caf::resumable::resume_result resume(caf::execution_unit* unit, std::size_t max_throughput) override;

 private:
  void escalate(const Error& why) override;
  auto telling() {
    return [this](const auto& to, auto&& what) { tell(to, std::forward<decltype(what)>(what)); };
  }
  void begin();
  void deliver(TrainingOutbox& out);
  void write_history(bool all, bool flush);
  void write_history_when_due();
  std::string describe(std::uint64_t version) const;  // what went into it
  void inspect(ActorDetails& out) const override;
  void end(Error error);

  Config config_;
  std::optional<ShardState> state_;
  std::vector<Fence> early_fences_;  // the coordinator may begin, and lose a worker, before the shard does
  JobLinks links_;
  CoordinatorLink coordinator_;
  std::optional<wire::Cork> cork_;
  std::uint64_t written_ = 0;  // the version up to which there is history
};

}  // namespace troupe
