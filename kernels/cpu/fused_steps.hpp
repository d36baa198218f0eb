// The steps of FusedElementwise: an op on a block of elements that lies in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <troupe/messages/dtype.hpp>

namespace troupe {

struct StepOperand {
  const std::byte* data = nullptr;
  bool moves = true;  // one element for each of the result; else one for all
};

// Computes `count` elements. At least one operand moves.
using StepFunction = void (*)(const StepOperand* operands, std::byte* out, std::int64_t count);

struct StepCode {
  StepFunction run = nullptr;  // null: there is none
  bool in_place = true;        // `out` may be the memory of an operand with elements of the same size
};

// `from` is the dtype of the last operand.
StepCode find_step(std::string_view op, DType from, DType to);

// By file.
StepCode find_unary_step(std::string_view op, DType from, DType to);
StepCode find_binary_step(std::string_view op, DType from, DType to);

}  // namespace troupe
