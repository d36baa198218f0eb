// The shapes of elementwise kernels, and the memory of their results, on devices of every type.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/elementwise_program.hpp>

namespace troupe {

// Memory for an output: that of the first input of its dtype and shape which can be taken, else new.
Tensor take_any_or_allocate(KernelContext& context, DType dtype, const Shape& shape);

// Gradients are not broadcast. Throws invalid_argument if the shapes differ.
void check_gradient_shape(const Shape& gradient, const Shape& value);

// The dtype of an operand in a program with these steps and inputs.
DType operand_type(const ElementwiseOperand& operand, std::span<const ElementwiseStep> steps,
                   std::span<const DType> inputs);

// Works out the shape of a program's result from those of its inputs.
class ElementwiseShapes {
 public:
  ElementwiseShapes(std::span<const ElementwiseStep> steps, std::span<const DType> inputs);
  // Throws what the ops would throw one after the other.
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
