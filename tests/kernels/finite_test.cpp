#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/kernels/cpu/finite.hpp>

namespace troupe::testing {
namespace {

class AllFinite : public KernelTest {
 protected:
  bool finite(std::vector<Tensor> xs) {
    const auto n = static_cast<std::int64_t>(xs.size());
    const bool one = run1("AllFinite", xs, {{"N", n}}).item<bool>();
    EXPECT_EQ(run_on_three_threads("AllFinite", xs, {{"N", n}}).item<bool>(), one);
    return one;
  }

  // Places at both ends, inside of vectors, and at the cuts between threads.
  template <class T, class Value>
  void finds(Value bad) {
    const std::int64_t n = 70001;
    for (std::int64_t at : {0, 1, 17, 65535, 65536, 70000}) {
      Tensor x = Tensor::zeros(dtype_of<T>, Shape{n});
      EXPECT_TRUE(finite({x})) << name(dtype_of<T>) << " " << at;
      x.mutable_data<T>()[at] = static_cast<T>(bad);
      EXPECT_FALSE(finite({x})) << name(dtype_of<T>) << " " << at;
    }
  }
  template <class T>
  void all_kinds() {
    for (float bad : {INFINITY, -INFINITY, NAN}) finds<T>(bad);
  }
};

TEST_F(AllFinite, FindsInfinitiesAndNanAnywhere) {
  all_kinds<float>();
  all_kinds<double>();
  all_kinds<Half>();
  all_kinds<BFloat16>();
}

TEST_F(AllFinite, TheGreatestAndLeastNumbersAreFinite) {
  EXPECT_TRUE(finite({Tensor::vector<float>({3.4028235e38f, -3.4028235e38f, 1e-45f, -0.0f})}));
  EXPECT_TRUE(finite({Tensor::vector<double>({1.7976931348623157e308, -5e-324})}));
  EXPECT_TRUE(finite({Tensor::vector<Half>({Half(65504.0f), Half(-65504.0f), Half(6e-8f)})}));
  EXPECT_TRUE(finite({Tensor::vector<BFloat16>({BFloat16(3.38e38f), BFloat16(-1e-40f)})}));
}

TEST_F(AllFinite, OfSeveralTensorsAllCount) {
  const Tensor good = Tensor::vector<float>({1, 2}), bad = Tensor::vector<float>({1, INFINITY});
  EXPECT_TRUE(finite({good, good, good}));
  EXPECT_FALSE(finite({bad, good, good}));
  EXPECT_FALSE(finite({good, good, bad}));
  EXPECT_TRUE(finite({Tensor::zeros(DType::f32, Shape{0})}));
}

}  // namespace
}  // namespace troupe::testing
