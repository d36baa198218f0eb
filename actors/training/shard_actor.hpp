// A parameter shard: receives gradients, applies them, answers pulls. ShardState implements the protocol.
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
    // Called once, when the job is over (ok) or has failed, with the cut that the values hold then.
    std::function<void(Error, const ShardCounters&, const ShardState::Cut&, const BarrierOpen&)> ended;
    std::vector<SlicePack> packs = {};                    // of these slices
    std::function<void(const Joined&)> joined = nullptr;  // the coordinator's answer; null: not needed
    // Called before the first frame of the job, when the shard's start is known. Null: `options` are final.
    std::function<void(ShardOptions&)> prepare = nullptr;
    // Called while the store holds the version to save; the callee reports Saved when that is written. Null: saving is
    // unsupported.
    std::function<void(const Save&, const ShardState::Cut&)> save = nullptr;
    // Receives the provenance of versions, in order; `flush`: must be durable, for a checkpoint or because the job is
    // over. Null: not recorded.
    std::function<void(std::vector<Provenance>, bool flush)> history = nullptr;
  };
  ShardActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config settings);
  behavior_type make_behavior() override;
  // Messages sent to a task during one run leave together: small variables of a version, reports on small pushes.
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
  std::string describe(std::uint64_t version) const;  // its provenance
  void inspect(ActorDetails& out) const override;
  void end(Error error);

  Config config_;
  std::optional<ShardState> state_;
  std::vector<Fence> early_fences_;  // the coordinator may begin and lose a worker before the shard begins
  JobLinks links_;
  CoordinatorLink coordinator_;
  std::optional<wire::Cork> cork_;
  std::uint64_t written_ = 0;  // last version in the history
  BarrierOpen open_;           // once the job has ended well
};

}  // namespace troupe
