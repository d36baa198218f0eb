// The program of a FusedElementwise node: ops in execution order, each on inputs of the node and results of earlier
// ops. As an attribute it is a list of lines:
//
//   Mul:f32 i0 i1       r0 = i0 * i1
//   Relu:f32 r0         r1 = relu(r0)
//   Less:bool r1 i2     r2 = r1 < i2; the dtype is that of the result
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/graph/op.hpp>

namespace troupe {

struct ElementwiseOperand {
  bool is_input = true;  // of the node; otherwise the result of a step
  int index = 0;
  bool operator==(const ElementwiseOperand&) const = default;
};

struct ElementwiseStep {
  std::string op;
  DType dtype = DType::invalid;  // of the result
  std::vector<ElementwiseOperand> operands;
};

inline constexpr int kMaxElementwiseInputs = 16;
inline constexpr int kMaxElementwiseSteps = 32;

// Throws invalid_argument for an invalid program: an op that cannot be part of one (see elementwise_rule), operands not
// yet defined, too many inputs or steps, or no steps.
std::vector<ElementwiseStep> parse_elementwise(std::span<const std::string> lines, std::span<const DType> inputs);
std::vector<std::string> to_strings(std::span<const ElementwiseStep> steps);

// Operands of an op in a program. Dtypes are floating, except the bool of comparisons and conditions, and bytes (u8),
// which are converted first.
struct ElementwiseRule {
  int operands = 0;
  bool same_shapes = false;  // operands are not broadcast
};
// None if an op with these dtypes cannot be part of a program.
std::optional<ElementwiseRule> elementwise_rule(std::string_view op, std::span<const DType> inputs, DType result);

}  // namespace troupe
