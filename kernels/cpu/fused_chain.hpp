// Steps of FusedElementwise that keep their values in vector registers: each is a function that works on the
// registers it was called with and ends by calling the next one with them (threaded code). For cheap ops of f32; the
// rest goes from block to block through memory (fused_steps.hpp). The bits are the same.
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

// Elements that are worked on at once: eight registers, as many as a call passes.
inline constexpr std::int64_t kChainElements = 8 * kVectorBytes / static_cast<int>(sizeof(float));

struct ChainCell;
using ChainFunction = void (*)(const ChainCell* cell, std::int64_t at, FloatVector, FloatVector, FloatVector,
                               FloatVector, FloatVector, FloatVector, FloatVector, FloatVector);

// One step and its other operand, if it has one: elements [at, at + kChainElements) of it, or one element.
struct ChainCell {
  ChainFunction run = nullptr;
  float* operand = nullptr;
};

// What the second operand of an op is; the first is in the registers, or for the left ones the other way round.
enum class ChainOperand : std::uint8_t { none, itself, right_tensor, right_scalar, left_tensor, left_scalar };

// The functions of an op; null for operands that it does not have.
struct ChainCode {
  std::array<ChainFunction, 6> of{};
  ChainFunction operator[](ChainOperand operand) const { return of[static_cast<std::size_t>(operand)]; }
};

// No functions if the op goes through memory.
ChainCode find_chain(std::string_view op);
// Those that begin, keep a copy, and end.
ChainFunction chain_load();
ChainFunction chain_keep();
// `past_caches`: for results that no cache holds; they must be aligned to kVectorBytes. Other threads may read them
// after finish_streams().
ChainFunction chain_store(bool past_caches);
void finish_streams();

// Runs the cells, of which the first loads and the last stores, for elements [0, count): a multiple of kChainElements.
void run_chain(const ChainCell* cells, std::int64_t count);

}  // namespace troupe
