// FusedElementwise programs (graph/elementwise_program.hpp) in the form that the GPU runs: plain data, for host and
// device.
//
// A thread holds two values per element in registers, x and y, and a bit. A step loads y, computes x from x and y,
// rounds x, and may keep it in shared memory. The result of one op stays in x for the next.
#pragma once

#include <cstdint>

#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

#define TROUPE_ENUMERATOR(NAME) NAME,
enum class FusedOp : std::uint8_t {
  load,                                     // x = y
  mask,                                     // bit = y is not 0
  Select,                                   // x = bit ? x : y
  Cast,                                     // x stays, only rounded
  TROUPE_UNARY_OPS(TROUPE_ENUMERATOR) Div,  // of x and y, as are the rest
  ReluGrad,
  TROUPE_ARITHMETIC_OPS(TROUPE_ENUMERATOR) TROUPE_FLOAT_GRADIENT_OPS(TROUPE_ENUMERATOR)
      TROUPE_COMPARISON_OPS(TROUPE_ENUMERATOR)
};
#undef TROUPE_ENUMERATOR

#define TROUPE_ONE(NAME) +1
inline constexpr int kLastFusedUnary = static_cast<int>(FusedOp::Cast) TROUPE_UNARY_OPS(TROUPE_ONE);
#undef TROUPE_ONE
constexpr bool is_unary(FusedOp op) { return op > FusedOp::Cast && static_cast<int>(op) <= kLastFusedUnary; }

// Rounding of x after a step, if narrower than its arithmetic.
enum class FusedRounding : std::uint8_t { none, f32, f16, bf16 };

// Source of y: a kept place (0, 1, ...), an input (kFusedInput + its number), x, or none.
inline constexpr std::uint8_t kFusedInput = 64;
inline constexpr std::uint8_t kFusedSame = 254;
inline constexpr std::uint8_t kFusedNone = 255;

struct alignas(8) FusedStep {
  FusedOp op = FusedOp::load;
  std::uint8_t source = kFusedNone;
  std::uint8_t keep = kFusedNone;  // place to keep x in
  FusedRounding rounding = FusedRounding::none;
  bool swapped = false;  // computes y op x; only for Select, Div, TROUPE_ORDERED_OPS and the gradients
  bool wide = false;     // computes in f64
  bool operator==(const FusedStep&) const = default;
};

inline constexpr int kMaxFusedInputs = 16;
inline constexpr int kMaxFusedPlaces = 24;
inline constexpr int kMaxFusedSteps = 96;  // a Select takes up to three

// How to walk an input.
enum class FusedWalk : std::uint8_t { one, flat, stretched };

struct FusedInput {
  const void* data = nullptr;
  DType dtype = DType::invalid;
  FusedWalk walk = FusedWalk::flat;
};

// Arguments of one launch.
struct FusedArguments {
  FusedStep steps[kMaxFusedSteps];
  int num_steps = 0;
  int places = 0;
  bool wide = false;             // some value is f64
  DType dtype = DType::invalid;  // dtype of the result: floating
  void* out = nullptr;
  FusedInput inputs[kMaxFusedInputs];
  IndexPlan<kMaxFusedInputs> plan;
};
static_assert(sizeof(FusedArguments) <= 4096, "kernel arguments are limited to 4 KiB");

// Threads per block: the most whose places, 64 bytes each, fit in 48 KiB of shared memory.
inline constexpr int kFusedThreads = 256;
inline constexpr int kFusedThreadBytes = 64;
constexpr int fused_threads(int places) {
  int threads = kFusedThreads;
  while (threads * places * kFusedThreadBytes > 48 * 1024) threads /= 2;
  return threads;
}
static_assert(fused_threads(kMaxFusedPlaces) == 32, "a block needs at least a warp");

}  // namespace troupe
