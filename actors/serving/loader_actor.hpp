// Loads one version of a model, and unloads it. Detached, and loads at a low priority: what that takes from the
// processors and the disk, requests of other versions do not notice. Makes batchers that fail again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/serving/loaded_servable.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>

namespace troupe {

class LoaderActorImpl final : public Counted<LoaderActor> {
 public:
  // `task` outlives the actor. `threads`: of the version's device; 0: one for each core.
  LoaderActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Task& task, ServableId id,
                  std::optional<BatchQueue::Options> batching, int threads, std::shared_ptr<SharedLoading> shared)
      : Counted(config, std::move(record)),
        task_(task),
        id_(std::move(id)),
        batching_(std::move(batching)),
        threads_(threads),
        shared_(std::move(shared)) {}
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void load(const FoundVersion& version);
  void make_batcher(const std::string& signature);
  void replace_batcher(const caf::actor_addr& failed);
  // Those that requests are padded to; the largest, if any size is allowed.
  std::vector<std::int64_t> sizes_of_batches() const;
  void end_batchers();  // returns when they have let go of the model

  Task& task_;
  const ServableId id_;
  const std::optional<BatchQueue::Options> batching_;
  const int threads_;
  const std::shared_ptr<SharedLoading> shared_;
  std::shared_ptr<LoadedServable> servable_;      // null: not loaded
  std::map<std::string, BatcherActor> batchers_;  // by signature
};

}  // namespace troupe
