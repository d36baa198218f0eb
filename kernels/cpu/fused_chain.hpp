// Steps of FusedElementwise that keep values in vector registers: each step is a function that works on the registers
// it receives and ends by calling the next step with them (threaded code). For cheap f32 ops; others pass blocks
// through memory (fused_steps.hpp). The bits are the same.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace troupe {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
using FloatVector = float __attribute__((vector_size(kVectorBytes)));

// Elements processed together: eight registers, the most that a call passes.
inline constexpr std::int64_t kChainElements = 8 * kVectorBytes / static_cast<int>(sizeof(float));

struct ChainCell;
using ChainFunction = void (*)(const ChainCell* cell, std::int64_t at, FloatVector, FloatVector, FloatVector,
                               FloatVector, FloatVector, FloatVector, FloatVector, FloatVector);

// One step and its other operand, if any: elements [at, at + kChainElements) or a single element.
struct ChainCell {
  ChainFunction run = nullptr;
  float* operand = nullptr;
};

// Kind of the operand that is not in the registers; for left_* it is the first operand, for right_* the second.
enum class ChainOperand : std::uint8_t { none, itself, right_tensor, right_scalar, left_tensor, left_scalar };

// Functions of an op by operand kind; null for unsupported kinds.
struct ChainCode {
  std::array<ChainFunction, 6> of{};
  ChainFunction operator[](ChainOperand operand) const { return of[static_cast<std::size_t>(operand)]; }
};

// Returns no functions if the op must go through memory.
ChainCode find_chain(std::string_view op);
// Functions that begin a chain, keep a copy, and end it.
ChainFunction chain_load();
ChainFunction chain_load_bytes();  // from u8; the cell's operand is their address
ChainFunction chain_keep();
// `past_caches`: for results too large for any cache; they must be aligned to kVectorBytes. Other threads may read them
// only after finish_streams().
ChainFunction chain_store(bool past_caches);
void finish_streams();

// Runs the cells, the first of which loads and the last stores, on elements [0, count); count is a multiple of
// kChainElements.
void run_chain(const ChainCell* cells, std::int64_t count);

}  // namespace troupe
