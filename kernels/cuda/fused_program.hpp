// The programs of FusedElementwise (graph/elementwise_program.hpp) as the GPU runs them: plain data, for both sides.
//
// A thread has two values of each of its elements in registers, x and y, and a bit. A step loads y from somewhere,
// computes x from x and y, rounds x, and may keep it in shared memory. What one op makes for the next stays in x.
#pragma once

#include <cstdint>

#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

enum class FusedOp : std::uint8_t {
  load,    // x = y
  mask,    // bit = y is not 0
  select,  // x = bit ? x : y
  cast,    // x stays: only rounded
  neg,
  abs,
  sign,
  square,
  relu,
  exp,
  log,
  log1p,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  softplus,
  floor,
  erf,
  add,  // of x and y, as the rest
  sub,
  mul,
  div,
  maximum,
  minimum,
  squared_difference,
  relu_grad,
  sigmoid_grad,
  tanh_grad,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
};

// To what x is rounded after a step, where it is not what arithmetic happens in.
enum class FusedRounding : std::uint8_t { none, f32, f16, bf16 };

// Where y comes from: what was kept in a place (0, 1, ...), an input (kFusedInput + its number), x, or nowhere.
inline constexpr std::uint8_t kFusedInput = 64;
inline constexpr std::uint8_t kFusedSame = 254;
inline constexpr std::uint8_t kFusedNone = 255;

struct alignas(8) FusedStep {
  FusedOp op = FusedOp::load;
  std::uint8_t source = kFusedNone;
  std::uint8_t keep = kFusedNone;  // the place that x is kept in
  FusedRounding rounding = FusedRounding::none;
  bool swapped = false;  // y op x; only of select, sub, div, maximum, minimum and the gradients
  bool wide = false;     // of f64
  bool operator==(const FusedStep&) const = default;
};

inline constexpr int kMaxFusedInputs = 16;
inline constexpr int kMaxFusedPlaces = 24;
inline constexpr int kMaxFusedSteps = 96;  // a Select takes up to three

// How an input is walked.
enum class FusedWalk : std::uint8_t { one, flat, stretched };

struct FusedInput {
  const void* data = nullptr;
  DType dtype = DType::invalid;
  FusedWalk walk = FusedWalk::flat;
};

// What one launch computes.
struct FusedArguments {
  FusedStep steps[kMaxFusedSteps];
  int num_steps = 0;
  int places = 0;
  bool wide = false;             // some value is f64
  DType dtype = DType::invalid;  // of the result: floating
  void* out = nullptr;
  FusedInput inputs[kMaxFusedInputs];
  IndexPlan<kMaxFusedInputs> plan;
};
static_assert(sizeof(FusedArguments) <= 4096, "the arguments of a kernel");

// Threads of a block: as many as have room in 48 KiB of shared memory for what they keep, 64 bytes in each place.
inline constexpr int kFusedThreads = 256;
inline constexpr int kFusedThreadBytes = 64;
constexpr int fused_threads(int places) {
  int threads = kFusedThreads;
  while (threads * places * kFusedThreadBytes > 48 * 1024) threads /= 2;
  return threads;
}
static_assert(fused_threads(kMaxFusedPlaces) == 32, "a warp at least");

}  // namespace troupe
