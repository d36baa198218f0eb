// The steps of FusedElementwise: an op on a block of elements that lies in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/messages/dtype.hpp>

namespace troupe {

struct StepOperand {
  const std::byte* data = nullptr;
  bool moves = true;  // one element for each of the result; else one for all
};

// Computes `count` elements. At least one operand moves. `out` may be the memory of an operand with elements of the
// same size, but not for Select.
using StepFunction = void (*)(const StepOperand* operands, std::byte* out, std::int64_t count);

// Null if there is none. `from` is the dtype of the last operand.
StepFunction find_step(std::string_view op, DType from, DType to);

// By file.
StepFunction find_unary_step(std::string_view op, DType dtype);
StepFunction find_binary_step(std::string_view op, DType from, DType to);

}  // namespace troupe
