#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_ops.hpp>
#include <troupe/kernels/cpu/fused_steps.hpp>

namespace troupe {
namespace {

template <class T, class Op>
void unary_step(const StepOperand* operands, std::byte* out, std::int64_t count) {
  unary_stretch(reinterpret_cast<const T*>(operands[0].data), reinterpret_cast<T*>(out), count, Op{});
}

template <class T>
StepFunction find(std::string_view op) {
  if (op == "Neg") return unary_step<T, NegOp>;
  if (op == "Abs") return unary_step<T, AbsOp>;
  if (op == "Sign") return unary_step<T, SignOp>;
  if (op == "Square") return unary_step<T, SquareOp>;
  if (op == "Relu") return unary_step<T, ReluOp>;
  if (op == "Exp") return unary_step<T, ExpOp>;
  if (op == "Log") return unary_step<T, LogOp>;
  if (op == "Log1p") return unary_step<T, Log1pOp>;
  if (op == "Sqrt") return unary_step<T, SqrtOp>;
  if (op == "Rsqrt") return unary_step<T, RsqrtOp>;
  if (op == "Tanh") return unary_step<T, TanhOp>;
  if (op == "Sigmoid") return unary_step<T, SigmoidOp>;
  if (op == "Softplus") return unary_step<T, SoftplusOp>;
  if (op == "Floor") return unary_step<T, FloorOp>;
  if (op == "Erf") return unary_step<T, ErfOp>;
  return nullptr;
}

}  // namespace

StepFunction find_unary_step(std::string_view op, DType dtype) {
  StepFunction found = nullptr;
  if (is_floating(dtype)) dispatch(FloatTypes{}, dtype, [&]<class T>() { found = find<T>(op); });
  return found;
}

}  // namespace troupe
