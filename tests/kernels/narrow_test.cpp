// Elementwise kernels of f16 and bf16 work on blocks; each element has the bits of one computed alone.
#include <cmath>
#include <cstring>

#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

class Narrow : public KernelTest {
 protected:
  // Every bit pattern, and a few more elements: the last block is not full.
  template <class T>
  Tensor patterns() {
    Tensor x(dtype_of<T>, Shape{65536 + 77});
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      x.mutable_data<T>()[i].bits = static_cast<std::uint16_t>(i * 40503);
    return x;
  }
  // Floats of all magnitudes, halfway cases, infinities and NaN among them.
  Tensor floats() {
    Tensor x(DType::f32, Shape{200003});
    std::uint32_t bits = 1;
    for (float& value : x.mutable_values<float>()) {
      bits = bits * 1664525u + 1013904223u;
      value = std::bit_cast<float>(bits % 5 == 0 ? bits & 0xffffe000u : bits % 7 == 0 ? bits & 0xffff8000u : bits);
    }
    return x;
  }

  template <class Out, class In>
  void expect_cast(const Tensor& x) {
    const Attributes to{{"SrcT", dtype_of<In>}, {"DstT", dtype_of<Out>}};
    const Tensor got = run1("Cast", {x}, to);
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const float value = static_cast<float>(x.data<In>()[i]);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(got.data<Out>()[i]))) << i;
        continue;
      }
      const Out expected = static_cast<Out>(value);
      ASSERT_EQ(std::memcmp(got.data<Out>() + i, &expected, sizeof expected), 0) << "element " << i << ", " << value;
    }
    EXPECT_TRUE(bitwise_equal(run_on_three_threads("Cast", {x}, to), got));
  }

  template <class T>
  void expect_binary() {
    const Tensor a = patterns<T>();
    const Tensor b = run1("Neg", {a.rows(0, 65536 + 77)});
    const Tensor one = Tensor::scalar(T(1.5f));
    const auto check = [&](const Tensor& got, auto expected) {
      for (std::int64_t i = 0; i < a.num_elements(); ++i) {
        const float value = expected(static_cast<float>(a.data<T>()[i]), static_cast<float>(b.data<T>()[i]));
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(static_cast<float>(got.data<T>()[i]))) << i;
        } else {
          ASSERT_EQ(got.data<T>()[i].bits, T(value).bits) << i;
        }
      }
    };
    check(run1("Mul", {a, b}), [](float x, float y) { return x * y; });
    check(run1("Add", {a, one}), [](float x, float) { return x + 1.5f; });
    check(run1("Sub", {one, a}), [](float x, float) { return 1.5f - x; });
    check(run1("Relu", {a}), [](float x, float) { return x < 0 ? 0 : x; });
    check(run1("ReluGrad", {a, b}), [](float dy, float y) { return y > 0 ? dy : 0; });
    const Tensor less = run1("Less", {a, b});
    for (std::int64_t i = 0; i < a.num_elements(); ++i)
      ASSERT_EQ(less.data<bool>()[i], static_cast<float>(a.data<T>()[i]) < static_cast<float>(b.data<T>()[i])) << i;
  }
};

TEST_F(Narrow, CastsHaveTheBitsOfConversionsOneByOne) {
  expect_cast<Half, float>(floats());
  expect_cast<BFloat16, float>(floats());
  expect_cast<float, Half>(patterns<Half>());
  expect_cast<float, BFloat16>(patterns<BFloat16>());
  expect_cast<Half, BFloat16>(patterns<BFloat16>());
  expect_cast<BFloat16, Half>(patterns<Half>());
}

TEST_F(Narrow, ArithmeticIsInFloat) {
  expect_binary<Half>();
  expect_binary<BFloat16>();
}

}  // namespace
}  // namespace troupe::testing
