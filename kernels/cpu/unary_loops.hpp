// Loops of elementwise ops of one operand over floating elements. One of float serves f32, f16 and bf16, for the op's
// own kernel and for steps of FusedElementwise: f16 and bf16 are widened and narrowed by blocks.
#pragma once

#include <map>
#include <string_view>

#include <troupe/kernels/cpu/elementwise.hpp>

namespace troupe {

// out[i] = op(x[i]); `out` may be `x`.
struct UnaryLoops {
  void (*of_float)(const float* x, float* out, std::int64_t count) = nullptr;
  void (*of_double)(const double* x, double* out, std::int64_t count) = nullptr;
};

// By op: all of TROUPE_UNARY_OPS.
const std::map<std::string_view, UnaryLoops>& unary_loops();
// The part that rare_loops.cpp adds.
void add_rare_loops(std::map<std::string_view, UnaryLoops>& loops);

// T: a floating type.
template <class T>
void run_loop(const UnaryLoops& loops, const T* x, T* out, std::int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    loops.of_double(x, out, count);
  } else {
    if constexpr (!kIsNarrow<T>) return loops.of_float(x, out, count);
    write_blocks(out, count, [&](std::int64_t begin, std::int64_t n, float* to) {
      float room[kNarrowBlock];
      loops.of_float(widened(x + begin, room, n), to, n);
    });
  }
}

// For the sources that make loops.
template <class Op, class T>
void unary_loop(const T* x, T* out, std::int64_t count) {
  const Op op{};
  TROUPE_IVDEP
  for (std::int64_t i = 0; i < count; ++i) out[i] = op(x[i]);
}
template <class Op>
constexpr UnaryLoops kUnaryLoops{unary_loop<Op, float>, unary_loop<Op, double>};

}  // namespace troupe
