// Quotients and powers, which of integers are not defined for all operands.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/operand_checks.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {
namespace {

template <class T>
void check_exponent(const Tensor& b) {
  const auto values = b.values<T>();
  if (const auto it = std::ranges::find_if(values, [](T x) { return x < 0; }); it != values.end())
    invalid_argument("integer power: exponent {} of {} is negative ({})", it - values.begin(), b.shape().to_string(),
                     *it);
}

}  // namespace

void register_math_division_kernels(KernelRegistry& registry) {
  add_kernels(registry, "Div", RealTypes{}, []<class T>(KernelContext& context) {
    if constexpr (std::is_integral_v<T>) check_divisor<T>(context.input(0), context.input(1));
    run_binary<T, T>(context, DivOp{});
  });
  add_kernels(registry, "Pow", Types<float, double, Half, BFloat16, std::int32_t, std::int64_t>{},
              []<class T>(KernelContext& context) {
                if constexpr (std::is_integral_v<T>) check_exponent<T>(context.input(1));
                run_binary<T, T>(context, PowOp<VectorMath>{});
              });
}

}  // namespace troupe
