// Unary steps of FusedElementwise.
#include <troupe/kernels/cpu/fused_steps.hpp>

namespace troupe {
namespace {

template <class T>
void unary_step(const StepCode& code, const StepOperand* operands, std::byte* out, std::int64_t count) {
  run_loop(code.unary, reinterpret_cast<const T*>(operands[0].data), reinterpret_cast<T*>(out), count);
}

}  // namespace

StepCode find_unary_step(std::string_view op, DType from, DType to) {
  const auto found = unary_loops().find(op);
  if (found == unary_loops().end() || from != to || !is_floating(from)) return {};
  StepCode code{.unary = found->second};
  dispatch(FloatTypes{}, from, [&]<class T>() { code.run = unary_step<T>; });
  return code;
}

}  // namespace troupe
