#include "actors/session/partition_actor.hpp"

namespace troupe {

PartitionActorImpl::behavior_type PartitionActorImpl::make_behavior() {
  return {
      [this](const BuildPlan&) { return build(); },
      [this](const Stop&) {
        source_ = Source{};
        partition_.reset();
        quit();
      },
  };
}

Built PartitionActorImpl::build() {
  try {
    const DeviceAttributes& device = source_.device.device->attributes();
    std::shared_ptr<const Plan> plan = build_plan(*source_.graph, *source_.kernels, device.type, device.name.to_string());
    std::vector<Variable*> variables;
    for (const VariableDecl& decl : plan->variables) variables.push_back(&source_.variables->get(decl));
    partition_ = std::make_shared<LocalPartition>();
    // The store lives as long as the plan that points into it.
    partition_->partition = std::shared_ptr<RegisteredPartition>(
        new RegisteredPartition(std::move(plan), std::move(variables)),
        [store = source_.variables](RegisteredPartition* p) { delete p; });
    partition_->device = source_.device;
    source_.graph.reset();
    return {Error(), partition_};
  } catch (...) {
    return {current_error(), nullptr};
  }
}

}  // namespace troupe
