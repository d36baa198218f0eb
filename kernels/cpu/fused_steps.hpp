// Steps of FusedElementwise: an op on a block of elements held in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <troupe/kernels/cpu/unary_loops.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

struct StepOperand {
  const std::byte* data = nullptr;
  bool moves = true;  // one element per result element; false: one element for all
};

struct StepCode;
// Computes `count` elements. At least one operand moves.
using StepFunction = void (*)(const StepCode& code, const StepOperand* operands, std::byte* out, std::int64_t count);

struct StepCode {
  StepFunction run = nullptr;  // null: unsupported
  UnaryLoops unary{};          // of a unary step
  bool in_place = true;        // `out` may be the memory of an operand with the same element size
};

// `from` is the dtype of the last operand.
StepCode find_step(std::string_view op, DType from, DType to);

// The same for each source file.
StepCode find_unary_step(std::string_view op, DType from, DType to);
StepCode find_binary_step(std::string_view op, DType from, DType to);

}  // namespace troupe
