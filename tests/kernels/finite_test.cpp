#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/kernels/cpu/finite.hpp>
#include <troupe/messages/element_types.hpp>

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

class CheckNumerics : public KernelTest {
 protected:
  std::string problem_of(const Tensor& x) { return error_of("CheckNumerics", {x}, {{"message", std::string("x")}}); }
};

// The lowest element, and what it is.
TEST_F(CheckNumerics, NamesTheFirstElementThatIsNotFinite) {
  for_each_type(FloatTypes{}, [&]<class T>() {
    Tensor x = Tensor::zeros(dtype_of<T>, Shape{300, 333});
    EXPECT_EQ(problem_of(x), "");
    EXPECT_TRUE(bitwise_equal(run1("CheckNumerics", {x}, {{"message", std::string()}}), x));
    const auto expect = [&](std::int64_t at, float bad, const std::string& what) {
      x.mutable_data<T>()[at] = static_cast<T>(bad);
      const std::string found = problem_of(x);
      EXPECT_NE(found.find("x is not finite"), std::string::npos) << found;
      EXPECT_NE(found.find(fmt::format("element {}", at)), std::string::npos) << found;
      EXPECT_NE(found.find(" is " + what), std::string::npos) << found;
    };
    expect(99'899, NAN, "NaN");
    expect(70'000, -INFINITY, "-infinite");
    expect(3, INFINITY, "infinite");
  });
}

}  // namespace
}  // namespace troupe::testing
