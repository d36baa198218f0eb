// Shapes of elementwise kernels and memory for their results, for all device types.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/elementwise_program.hpp>

namespace troupe {

// Memory for an output: takes over the first input with this dtype and shape that can be taken, else allocates.
Tensor take_any_or_allocate(KernelContext& context, DType dtype, const Shape& shape);

// Throws invalid_argument if the shapes differ: gradients are not broadcast.
void check_gradient_shape(const Shape& gradient, const Shape& value);

// Dtype of an operand in a program with these steps and inputs.
DType operand_type(const ElementwiseOperand& operand, std::span<const ElementwiseStep> steps,
                   std::span<const DType> inputs);

// Computes the shape of a program's result from those of its inputs.
class ElementwiseShapes {
 public:
  ElementwiseShapes(std::span<const ElementwiseStep> steps, std::span<const DType> inputs);
  // Throws the errors that the ops would throw one after another.
  Shape result(const KernelContext& context) const;

 private:
  struct Step {
    std::array<ElementwiseOperand, 3> operands;
    std::size_t num_operands;
    bool same_shapes;
  };
  std::vector<Step> steps_;
};

}  // namespace troupe
