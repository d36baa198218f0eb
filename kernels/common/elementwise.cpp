#include "troupe/kernels/common/elementwise.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/kernels/common/special_ops.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

Tensor take_any_or_allocate(KernelContext& context, DType dtype, const Shape& shape) {
  for (int i = 0; i < context.num_inputs(); ++i)
    if (context.input(i).dtype() == dtype && context.input(i).shape() == shape)
      if (Tensor taken = context.take_input(i); taken.valid()) return taken;
  return context.allocate(dtype, shape);
}

void check_gradient_shape(const Shape& gradient, const Shape& value) {
  if (gradient != value)
    invalid_argument("gradient shape {} differs from value shape {}", gradient.to_string(), value.to_string());
}

DType operand_type(const ElementwiseOperand& operand, std::span<const ElementwiseStep> steps,
                   std::span<const DType> inputs) {
  const auto index = static_cast<std::size_t>(operand.index);
  return operand.is_input ? inputs[index] : steps[index].dtype;
}

ElementwiseShapes::ElementwiseShapes(std::span<const ElementwiseStep> steps, std::span<const DType> inputs) {
  for (const ElementwiseStep& step : steps) {
    std::vector<DType> types;
    for (const ElementwiseOperand& o : step.operands) types.push_back(operand_type(o, steps, inputs));
    Step made{.num_operands = step.operands.size(),
              .same_shapes = elementwise_rule(step.op, types, step.dtype)->same_shapes};
    std::ranges::copy(step.operands, made.operands.begin());
    steps_.push_back(made);
  }
}

Shape ElementwiseShapes::result(const KernelContext& context) const {
  bool all_alike = true;
  for (int i = 1; all_alike && i < context.num_inputs(); ++i)
    all_alike = context.input(i).shape() == context.input(0).shape();
  if (all_alike) return context.input(0).shape();
  std::array<Shape, kMaxElementwiseSteps> results;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const auto shape = [&](std::size_t k) -> const Shape& {
      const ElementwiseOperand& o = step.operands[k];
      return o.is_input ? context.input(o.index).shape() : results[static_cast<std::size_t>(o.index)];
    };
    results[s] = shape(0);
    for (std::size_t k = 1; k < step.num_operands; ++k) {
      if (step.same_shapes) check_gradient_shape(results[s], shape(k));
      results[s] = broadcast(results[s], shape(k));
    }
  }
  return results[steps_.size() - 1];
}

PolygammaOp polygamma_op(std::string_view node, std::int64_t n) {
  if (n < 1 || n > 100) invalid_argument("'{}': attribute 'n' is {}, not in [1, 100]", node, n);
  return {static_cast<int>(n) + 1, (n % 2 == 0 ? -1 : 1) * std::tgamma(static_cast<double>(n) + 1)};
}

}  // namespace troupe
