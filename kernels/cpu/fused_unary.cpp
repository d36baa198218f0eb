// Unary steps of FusedElementwise.
#include <map>

#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/fused_steps.hpp>

namespace troupe {
namespace {

template <class T, class Op>
void unary_step(const StepOperand* operands, std::byte* out, std::int64_t count) {
  unary_stretch(reinterpret_cast<const T*>(operands[0].data), reinterpret_cast<T*>(out), count, Op{});
}

template <class Op>
StepCode unary_code(DType dtype) {
  StepCode code;
  dispatch(FloatTypes{}, dtype, [&]<class T>() { code.run = unary_step<T, Op>; });
  return code;
}

}  // namespace

StepCode find_unary_step(std::string_view op, DType from, DType to) {
  static const auto codes = [] {
    std::map<std::string_view, StepCode (*)(DType)> table;
    const auto add = [&]<class Op>(const char* name, Op) { table.emplace(name, unary_code<Op>); };
    for_each_real_unary(add);
    for_each_float_unary(add);
    return table;
  }();
  const auto found = codes.find(op);
  return found != codes.end() && from == to && is_floating(from) ? found->second(from) : StepCode{};
}

}  // namespace troupe
