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
    partition_->partition = std::make_shared<RegisteredPartition>(std::move(plan), std::move(variables), source_.variables);
    partition_->device = source_.device;
    source_.graph.reset();
    return {Error(), partition_};
  } catch (...) {
    return {current_error(), nullptr};
  }
}

}  // namespace troupe
