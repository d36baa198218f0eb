// Holds one partition of a registered graph: compiles its plan outside the scheduler and keeps it until the session
// closes. Takes no part in steps.
#pragma once

#include <memory>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/steps/step.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class PartitionActorImpl final : public Counted<PartitionActor> {
 public:
  struct Source {
    std::shared_ptr<const Graph> graph;
    LocalDevice device;
    std::shared_ptr<VariableStore> variables;  // of (session, device)
    const KernelRegistry* kernels;             // must outlive the actor
  };
  PartitionActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Source source)
      : Counted(config, std::move(record)), source_(std::move(source)) {}
  behavior_type make_behavior() override;

 private:
  Built build();

  Source source_;
  std::shared_ptr<LocalPartition> partition_;
};

}  // namespace troupe
