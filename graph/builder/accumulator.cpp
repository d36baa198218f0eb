#include "troupe/graph/builder/accumulator.hpp"

#include <utility>

namespace troupe {

AccumulatorSteps::AccumulatorSteps(Graph& graph, Name op, DType dtype, Shape shape, AccumulatorOptions options)
    : dtype_(dtype), shape_(std::move(shape)), reduction_(std::move(options.reduction)) {
  if (!is_floating(dtype_)) invalid_argument("{}: gradients have a floating dtype, not {}", op, troupe::name(dtype_));
  if (reduction_ != "mean" && reduction_ != "sum")
    invalid_argument("{}: the reduction must be mean or sum, not '{}'", op, reduction_);
  handle_ = add_resource(graph, std::move(op), {{"dtype", dtype_}, {"shape", shape_}},
                         {.name = std::move(options.name), .device = std::move(options.device)});
}

Output AccumulatorSteps::set_global_step(IntegersArg step, Name name) const {
  return add_resource_target("AccumulatorSetGlobalStep", handle_, {step.scalar_in(handle_)}, {}, std::move(name));
}
Output AccumulatorSteps::num_accumulated(Name name) const {
  return add_resource_call("AccumulatorNumAccumulated", handle_, {}, {}, std::move(name))[0];
}

ConditionalAccumulator::ConditionalAccumulator(Graph& graph, DType dtype, Shape shape, AccumulatorOptions options)
    : AccumulatorSteps(graph, "ConditionalAccumulator", dtype, std::move(shape), std::move(options)) {}

Output ConditionalAccumulator::apply_grad(Output gradient, IntegersArg local_step, Name name) const {
  return add_resource_target("AccumulatorApplyGradient", handle_, {local_step.scalar_in(handle_), gradient}, {},
                             std::move(name));
}

Output ConditionalAccumulator::take_grad(IntegersArg num_required, Name name) const {
  return add_resource_call("AccumulatorTakeGradient", handle_, {num_required.scalar_in(handle_)},
                           {{"T", dtype_}, {"shape", shape_}, {"reduction", reduction_}}, std::move(name))[0];
}

SparseConditionalAccumulator::SparseConditionalAccumulator(Graph& graph, DType dtype, Shape shape,
                                                           AccumulatorOptions options)
    : AccumulatorSteps(graph, "SparseConditionalAccumulator", dtype, std::move(shape), std::move(options)) {}

Output SparseConditionalAccumulator::apply_grad(Output indices, Output values, IntegersArg local_step,
                                                Name name) const {
  return add_resource_target("SparseAccumulatorApplyGradient", handle_,
                             {local_step.scalar_in(handle_), indices, values}, {}, std::move(name));
}

SparseConditionalAccumulator::Rows SparseConditionalAccumulator::take_grad(IntegersArg num_required, Name name) const {
  const Outputs taken =
      add_resource_call("SparseAccumulatorTakeGradient", handle_, {num_required.scalar_in(handle_)},
                        {{"T", dtype_}, {"shape", shape_}, {"reduction", reduction_}}, std::move(name));
  return {taken[0], taken[1]};
}

}  // namespace troupe
