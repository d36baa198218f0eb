#include "troupe/actors/steps/partition_actor.hpp"

#include <future>

namespace troupe {
namespace {

// Copies a constant to the device's memory, and waits for the copy.
Tensor on_device(Device& device, const Tensor& constant) {
  if (constant.dtype() == DType::string) return constant;
  std::promise<Tensor> there;
  device.copy_in(constant, [&there](Tensor copy, Error error) {
    if (error)
      there.set_exception(std::make_exception_ptr(std::move(error)));
    else
      there.set_value(std::move(copy));
  });
  return there.get_future().get();
}

}  // namespace

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
    PlaceConstant place;
    if (!device.synchronous)
      place = [this](const Tensor& constant) { return on_device(*source_.device.device, constant); };
    std::shared_ptr<const Plan> plan =
        build_plan(*source_.graph, *source_.kernels, device.type, device.name.to_string(), place);
    std::vector<Variable*> variables;
    for (const VariableDecl& decl : plan->variables) variables.push_back(&source_.variables->get(decl));
    partition_ = std::make_shared<LocalPartition>();
    partition_->partition =
        std::make_shared<RegisteredPartition>(std::move(plan), std::move(variables), source_.variables);
    partition_->device = source_.device;
    source_.graph.reset();
    return {Error(), partition_};
  } catch (...) {
    return {current_error(), nullptr};
  }
}

}  // namespace troupe
