#include <functional>

#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_ops.hpp>
#include <troupe/kernels/cpu/fused_steps.hpp>

namespace troupe {
namespace {

template <class Out, class In, class Op>
void binary_step(const StepOperand* o, std::byte* out, std::int64_t count) {
  binary_stretch(reinterpret_cast<const In*>(o[0].data), o[0].moves, reinterpret_cast<const In*>(o[1].data), o[1].moves,
                 reinterpret_cast<Out*>(out), count, Op{});
}

template <class T>
void select_step(const StepOperand* o, std::byte* out, std::int64_t count) {
  const bool* condition = reinterpret_cast<const bool*>(o[0].data);
  const T* a = reinterpret_cast<const T*>(o[1].data);
  const T* b = reinterpret_cast<const T*>(o[2].data);
  T* __restrict to = reinterpret_cast<T*>(out);
  if (o[0].moves && o[1].moves && o[2].moves) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = condition[i] ? a[i] : b[i];
  } else {
    const std::int64_t step_c = o[0].moves, step_a = o[1].moves, step_b = o[2].moves;
    for (std::int64_t i = 0; i < count; ++i) to[i] = condition[i * step_c] ? a[i * step_a] : b[i * step_b];
  }
}

template <class To, class From>
void cast_step(const StepOperand* o, std::byte* out, std::int64_t count) {
  unary_stretch(reinterpret_cast<const From*>(o[0].data), reinterpret_cast<To*>(out), count,
                [](Compute<From> x) { return static_cast<Compute<To>>(x); });
}

template <class T>
StepFunction find_arithmetic(std::string_view op) {
  if (op == "Add") return binary_step<T, T, AddOp>;
  if (op == "Sub") return binary_step<T, T, SubOp>;
  if (op == "Mul") return binary_step<T, T, MulOp>;
  if (op == "Div") return binary_step<T, T, DivOp>;
  if (op == "Maximum") return binary_step<T, T, MaximumOp>;
  if (op == "Minimum") return binary_step<T, T, MinimumOp>;
  if (op == "SquaredDifference") return binary_step<T, T, SquaredDifferenceOp>;
  if (op == "ReluGrad") return binary_step<T, T, ReluGradOp>;
  if (op == "SigmoidGrad") return binary_step<T, T, SigmoidGradOp>;
  if (op == "TanhGrad") return binary_step<T, T, TanhGradOp>;
  if (op == "Select") return select_step<T>;
  return nullptr;
}

template <class T>
StepFunction find_comparison(std::string_view op) {
  if (op == "Equal") return binary_step<bool, T, std::equal_to<>>;
  if (op == "NotEqual") return binary_step<bool, T, std::not_equal_to<>>;
  if (op == "Less") return binary_step<bool, T, std::less<>>;
  if (op == "LessEqual") return binary_step<bool, T, std::less_equal<>>;
  if (op == "Greater") return binary_step<bool, T, std::greater<>>;
  if (op == "GreaterEqual") return binary_step<bool, T, std::greater_equal<>>;
  return nullptr;
}

StepFunction find_cast(DType from, DType to) {
  StepFunction found = nullptr;
  dispatch(FloatTypes{}, to, [&]<class To>() {
    if (from == DType::boolean) {
      found = cast_step<To, bool>;
    } else {
      dispatch(FloatTypes{}, from, [&]<class From>() { found = cast_step<To, From>; });
    }
  });
  return found;
}

}  // namespace

StepFunction find_binary_step(std::string_view op, DType from, DType to) {
  if (op == "Cast")
    return is_floating(to) && (is_floating(from) || from == DType::boolean) ? find_cast(from, to) : nullptr;
  StepFunction found = nullptr;
  if (is_floating(from))
    dispatch(FloatTypes{}, from,
             [&]<class T>() { found = to == DType::boolean ? find_comparison<T>(op) : find_arithmetic<T>(op); });
  return found;
}

}  // namespace troupe
