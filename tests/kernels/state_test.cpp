// Variables, forwarding and Cast.
#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

class StateTest : public KernelTest {
 protected:
  Tensor run_on(Variable& v, const std::string& op, std::vector<Tensor> inputs, DType dtype = DType::f32) {
    inputs.insert(inputs.begin(), Tensor());
    return run({.op = op, .dtype = dtype, .inputs = std::move(inputs), .variables = {&v}})[0];
  }
};

TEST_F(StateTest, IdentitySharesMemory) {
  for (const char* op : {"Identity", "StopGradient"}) {
    SCOPED_TRACE(op);
    const Tensor x = random<float>({3}), words = Tensor::vector<std::string>({"a", "b"});
    const Tensor same = run1(op, {x});
    EXPECT_TRUE(bitwise_equal(same, x));
    if (kernel_target().on_host()) {
      EXPECT_EQ(same.raw(), x.raw());
    }
    EXPECT_TRUE(bitwise_equal(run1(op, {words}), words));
  }
  EXPECT_NO_THROW(run({.op = "NoOp", .outputs = 0}));
}

TEST_F(StateTest, VariablesAreAssignedReadAndUpdated) {
  Variable v("v", DType::f32, {3});
  EXPECT_THROW(run_on(v, "ReadVariable", {}), Error);
  EXPECT_THROW(run_on(v, "AssignAddVariable", {random<float>({3})}), Error);
  const Tensor start = Tensor::vector<float>({1, 2, 3});
  EXPECT_TRUE(bitwise_equal(run_on(v, "AssignVariable", {start}), start));
  const Tensor read = run_on(v, "ReadVariable", {});
  EXPECT_EQ(doubles(run_on(v, "AssignAddVariable", {Tensor::vector<float>({10, 20, 30})})),
            (std::vector<double>{11, 22, 33}));
  EXPECT_EQ(doubles(read), (std::vector<double>{1, 2, 3}));  // who reads keeps what was read
  EXPECT_EQ(doubles(start), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(doubles(run_on(v, "AssignSubVariable", {Tensor::vector<float>({1, 1, 1})})),
            (std::vector<double>{10, 21, 32}));
}

TEST_F(StateTest, AVariableIsInitializedOnce) {
  Variable v("v", DType::f32, {2});
  EXPECT_EQ(doubles(run_on(v, "InitializeVariable", {Tensor::vector<float>({1, 2})})), (std::vector<double>{1, 2}));
  EXPECT_EQ(doubles(run_on(v, "InitializeVariable", {Tensor::vector<float>({3, 4})})), (std::vector<double>{1, 2}));
  EXPECT_EQ(doubles(run_on(v, "ReadVariable", {})), (std::vector<double>{1, 2}));
}

TEST_F(StateTest, UpdatesAreInPlaceIfNobodyReads) {
  Variable v("v", DType::f32, {3});
  run_on(v, "AssignVariable", {Tensor::vector<float>({1, 2, 3})});
  const void* memory = v.value().raw();
  run_on(v, "AssignAddVariable", {Tensor::vector<float>({1, 1, 1})});
  if (kernel_target().on_host()) {
    EXPECT_EQ(static_cast<const void*>(v.value().raw()), memory);
  }
  // The variable's own value as the change.
  EXPECT_EQ(doubles(run_on(v, "AssignAddVariable", {v.value()})), (std::vector<double>{4, 6, 8}));
}

TEST_F(StateTest, UpdatesThatDoNotFitAreErrors) {
  Variable v("v", DType::f32, {3});
  EXPECT_THROW(run_on(v, "AssignVariable", {Tensor::vector<float>({1})}), Error);
  run_on(v, "AssignVariable", {Tensor::vector<float>({1, 2, 3})});
  EXPECT_THROW(run_on(v, "AssignAddVariable", {Tensor::scalar(1.0f)}), Error);
  EXPECT_THROW(run_on(v, "AssignAddVariable", {Tensor::vector<double>({1, 2, 3})}), Error);
  EXPECT_EQ(doubles(v.value()), (std::vector<double>{1, 2, 3}));
}

TEST_F(StateTest, CastConvertsBetweenAllDtypes) {
  const std::vector<DType> all{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                               DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
  for (DType from : all)
    for (DType to : all) {
      const Tensor x = run1("Cast", {Tensor::vector<float>({0, 1, 7})}, {{"DstT", from}});
      const Tensor y = run1("Cast", {x}, {{"DstT", to}});
      ASSERT_EQ(y.dtype(), to) << name(from);
      const bool boolean = from == DType::boolean || to == DType::boolean;
      EXPECT_EQ(doubles(y), (std::vector<double>{0, 1, boolean ? 1.0 : 7.0})) << name(from) << ' ' << name(to);
    }
}

TEST_F(StateTest, CastSaturatesFloatsAndWrapsIntegers) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::vector<double>({kNaN, 1e30, -1e30, kInfinity, -kInfinity, 2.9, -2.9, 127.5, -128.9});
  EXPECT_EQ(doubles(run1("Cast", {x}, {{"DstT", DType::i8}})),
            (std::vector<double>{0, 127, -128, 127, -128, 2, -2, 127, -128}));
  EXPECT_EQ(doubles(run1("Cast", {x}, {{"DstT", DType::u8}})), (std::vector<double>{0, 255, 0, 255, 0, 2, 0, 127, 0}));
  const Tensor longs = run1("Cast", {x}, {{"DstT", DType::i64}});
  EXPECT_EQ(longs.values<std::int64_t>()[1], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(longs.values<std::int64_t>()[2], std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(run1("Cast", {Tensor::scalar(0x1p63f)}, {{"DstT", DType::i64}}).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(run1("Cast", {Tensor::scalar(std::int32_t{300})}, {{"DstT", DType::u8}}).item<std::uint8_t>(), 44);
  EXPECT_TRUE(run1("Cast", {Tensor::scalar(kNaN)}, {{"DstT", DType::boolean}}).item<bool>());
  EXPECT_THROW(run1("Cast", {x}, {{"DstT", DType::string}}), Error);
}

}  // namespace
}  // namespace troupe::testing
