// Loops of the rarer elementary functions.
#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/kernels/cpu/unary_loops.hpp>
#include <troupe/kernels/cpu/vector_functions.hpp>

namespace troupe {
namespace {

// A loop of sin, cos or tan: without branches over a block of which all elements are near, which is the rule.
template <template <class> class Op>
void turned_loop(const float* x, float* out, std::int64_t count) {
  constexpr std::int64_t kBlock = 256;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    std::uint32_t farthest = 0;  // bits are ordered like absolute values, and those of NaN are the greatest
    for (std::int64_t i = begin; i < begin + n; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
      farthest = magnitude > farthest ? magnitude : farthest;
    }
    if (farthest <= std::bit_cast<std::uint32_t>(VectorFunctions::kNear))
      unary_loop<Op<NearFunctions>>(x + begin, out + begin, n);
    else
      unary_loop<Op<VectorFunctions>>(x + begin, out + begin, n);
  }
}

template <template <class> class Op>
constexpr UnaryLoops kTurnedLoops{turned_loop<Op>, unary_loop<Op<VectorFunctions>, double>};

}  // namespace

void add_rare_loops(std::map<std::string_view, UnaryLoops>& loops) {
  loops["Sin"] = kTurnedLoops<SinOp>;
  loops["Cos"] = kTurnedLoops<CosOp>;
  loops["Tan"] = kTurnedLoops<TanOp>;
#define TROUPE_ADD(NAME) loops.emplace(#NAME, kUnaryLoops<NAME##Op<VectorFunctions>>);
  TROUPE_RARE_UNARY_OPS(TROUPE_ADD)
#undef TROUPE_ADD
}

}  // namespace troupe
