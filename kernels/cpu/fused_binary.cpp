// Steps of FusedElementwise with two or more operands, and steps that change the dtype.
#include <map>

#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/fused_steps.hpp>

namespace troupe {
namespace {

template <class Out, class In, class Op>
void binary_step(const StepCode&, const StepOperand* o, std::byte* out, std::int64_t count) {
  binary_stretch(reinterpret_cast<const In*>(o[0].data), o[0].moves, reinterpret_cast<const In*>(o[1].data), o[1].moves,
                 reinterpret_cast<Out*>(out), count, Op{});
}

template <class T>
void select_step(const StepCode&, const StepOperand* o, std::byte* out, std::int64_t count) {
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
void cast_step(const StepCode&, const StepOperand* o, std::byte* out, std::int64_t count) {
  unary_stretch(reinterpret_cast<const From*>(o[0].data), reinterpret_cast<To*>(out), count,
                [](Compute<From> x) { return static_cast<Compute<To>>(x); });
}

template <class Op>
StepCode arithmetic_code(DType from, DType to) {
  StepCode code;
  if (is_floating(from) && to != DType::boolean)
    dispatch(FloatTypes{}, from, [&]<class T>() { code.run = binary_step<T, T, Op>; });
  return code;
}

template <class Op>
StepCode comparison_code(DType from, DType to) {
  StepCode code;
  if (is_floating(from) && to == DType::boolean)
    dispatch(FloatTypes{}, from, [&]<class T>() { code.run = binary_step<bool, T, Op>; });
  return code;
}

StepCode select_code(DType from, DType to) {
  StepCode code{.in_place = false};
  if (is_floating(from) && to != DType::boolean)
    dispatch(FloatTypes{}, from, [&]<class T>() { code.run = select_step<T>; });
  return code;
}

StepCode cast_code(DType from, DType to) {
  StepCode code;
  if (!is_floating(to)) return code;
  dispatch(FloatTypes{}, to, [&]<class To>() {
    if (from == DType::boolean)
      code.run = cast_step<To, bool>;
    else if (from == DType::u8)
      code.run = cast_step<To, std::uint8_t>;
    else if (is_floating(from))
      dispatch(FloatTypes{}, from, [&]<class From>() { code.run = cast_step<To, From>; });
  });
  return code;
}

}  // namespace

StepCode find_binary_step(std::string_view op, DType from, DType to) {
  static const auto codes = [] {
    std::map<std::string_view, StepCode (*)(DType, DType)> table{
        {"Cast", cast_code},
        {"Div", arithmetic_code<DivOp>},
        {"ReluGrad", arithmetic_code<ReluGradOp>},
        {"Select", select_code},
    };
    const auto arithmetic = [&]<class Op>(const char* name, Op) { table.emplace(name, arithmetic_code<Op>); };
    const auto comparison = [&]<class Op>(const char* name, Op) { table.emplace(name, comparison_code<Op>); };
    for_each_arithmetic(arithmetic);
    for_each_float_gradient(arithmetic);
    for_each_equality(comparison);
    for_each_order(comparison);
    return table;
  }();
  const auto found = codes.find(op);
  return found != codes.end() ? found->second(from, to) : StepCode{};
}

}  // namespace troupe
