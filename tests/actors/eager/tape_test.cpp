// What a tape records, and for how long. That gradients are those of graphs: eager_gradients_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/eager/eager_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/tape.hpp>

namespace troupe {
namespace {

using testing::why_not;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TapeTest : public ::testing::Test {
 protected:
  Output scalar(double value) { return constant(graph_, value); }
  static double number(const Output& x) { return x.value().item<double>(); }

  Eager eager_;
  Graph& graph_ = eager_.graph();
};

TEST_F(TapeTest, RecordsWhatDependsOnWatchedValues) {
  const Output x = scalar(3), other = scalar(2);
  GradientTape tape;
  tape.watch(x);
  const Output y = square(x) * other;
  const Outputs found = tape.gradient(y, {x, other});
  EXPECT_EQ(number(found[0]), 12);
  EXPECT_FALSE(found[1].valid()) << "nobody watches it";
}

TEST_F(TapeTest, TrainableVariablesAreWatched) {
  const VariableRef w = variable(graph_, {.name = "w", .initial_value = scalar(5)}),
                    fixed = variable(graph_, {.name = "fixed", .initial_value = scalar(7), .trainable = false});
  {
    GradientTape tape;
    const Output y = w.read() * w.read() * fixed.read();
    const Outputs found = tape.gradient(y, {w.handle, fixed.handle});
    EXPECT_EQ(number(found[0]), 70);
    EXPECT_FALSE(found[1].valid());
  }
  GradientTape tape({.watch_variables = false});
  tape.watch(fixed.handle);
  const Output y = w.read() * square(fixed.read());
  const Outputs found = tape.gradient(y, {w.handle, fixed.handle});
  EXPECT_FALSE(found[0].valid());
  EXPECT_EQ(number(found[1]), 70);
}

// The gradient of rows that are gathered is sparse.
TEST_F(TapeTest, GradientsOfTablesAreSparse) {
  const VariableRef table =
      variable(graph_, {.name = "table", .initial_value = constant(graph_, Tensor::of<float>({3, 1}, {1, 2, 3}))});
  const auto loss = [&] {
    const Output rows = gather(table.read(), constant(graph_, {std::int64_t{2}, std::int64_t{0}, std::int64_t{2}}));
    return sum(square(rows));
  };
  GradientTape tape({.persistent = true});
  const Output y = loss();
  const std::vector<Gradient> found = tape.gradients(std::span(&y, 1), std::vector{table.handle});
  ASSERT_TRUE(found[0].is_sparse());
  EXPECT_EQ(found[0].indices.shape(), Shape{3});
  const Tensor dense = tape.gradient(y, table.handle).value();
  EXPECT_THAT(dense.values<float>(), ElementsAre(2, 0, 12));
}

TEST_F(TapeTest, APersistentTapeIsAskedAgain) {
  const Output x = scalar(3);
  GradientTape once, again({.persistent = true});
  once.watch(x);
  again.watch(x);
  const Output y = square(x), z = y * x;
  EXPECT_EQ(number(once.gradient(y, x)), 6);
  EXPECT_THAT(why_not([&] { once.gradient(z, x); }), HasSubstr(".persistent = true"));
  EXPECT_EQ(number(again.gradient(y, x)), 6);
  EXPECT_EQ(number(again.gradient(z, x)), 27);
  EXPECT_EQ(number(again.gradient(z, y)), 3);
}

TEST_F(TapeTest, OuterTapesRecordGradients) {
  const Output x = scalar(2);
  GradientTape third;
  third.watch(x);
  Output second_derivative;
  {
    GradientTape second;
    second.watch(x);
    Output first_derivative;
    {
      GradientTape first;
      first.watch(x);
      first_derivative = first.gradient(square(square(x)), x);
    }
    EXPECT_EQ(number(first_derivative), 32);
    second_derivative = second.gradient(first_derivative, x);
  }
  EXPECT_EQ(number(second_derivative), 48);
  EXPECT_EQ(number(third.gradient(second_derivative, x)), 48);
}

TEST_F(TapeTest, StopsAndStopGradient) {
  const Output x = scalar(3);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Output y = square(x);
  const Output half_stopped = y * stop_gradient(y);
  tape.stop();
  const Output unseen = square(y);
  EXPECT_EQ(number(tape.gradient(half_stopped, x)), 54);
  EXPECT_FALSE(tape.gradient(unseen, x).valid());
  const std::vector<Output> ys{half_stopped}, xs{x};
  EXPECT_FALSE(tape.gradients(ys, xs, {.stop_gradients = {y}})[0]);
}

TEST_F(TapeTest, FunctionsHaveGradientsOfTheirOwn) {
  const Output x = scalar(3), y = scalar(5);
  const CustomGradient product{.forward =
                                   [](const Outputs& v) {
                                     return Outputs{v[0] * v[1], v[0]};
                                   },
                               .backward =
                                   [](const Outputs& v, const Outputs&, const Outputs& d) {
                                     return Outputs{d[0] * v[1] * 100.0 + d[1], Output()};
                                   }};
  GradientTape tape;
  tape.watch(x);
  tape.watch(y);
  const Outputs made = custom_gradient(product, {x, y});
  const Outputs found = tape.gradient(square(made[0]), {x, y});
  EXPECT_EQ(number(made[0]), 15);
  EXPECT_EQ(number(found[0]), 30 * 500);
  EXPECT_FALSE(found[1].valid());
}

TEST_F(TapeTest, ValuesAndGradientsOfAFunction) {
  const ValueAndGradients out =
      value_and_grad([](const Outputs& v) { return square(v[0]) * v[1]; }, {scalar(3), scalar(2)});
  EXPECT_EQ(number(out.value), 18);
  EXPECT_EQ(number(out.gradients[0]), 12);
  EXPECT_EQ(number(out.gradients[1]), 9);
}

TEST_F(TapeTest, ErrorsSayWhy) {
  GradientTape tape({.persistent = true});
  Graph graph;
  EXPECT_THAT(why_not([&] { tape.watch(placeholder(graph, DType::f64)); }), HasSubstr("is of a graph"));
  EXPECT_THAT(why_not([&] { tape.watch(constant(graph_, 1)); }), HasSubstr("is i32, not floating"));
  EXPECT_THAT(why_not([&] { tape.watch({}); }), HasSubstr("not a tensor"));
  const Output x = scalar(2);
  tape.watch(x);
  const Output y = square(x);
  EXPECT_THAT(why_not([&] { gradients(std::vector{y}, std::vector{x}); }), HasSubstr("GradientTape"));
  EXPECT_THAT(why_not([&] { tape.gradient(Output(), x); }), HasSubstr("not a tensor"));
}

// What was recorded is freed with the gradients, or the tape.
TEST_F(TapeTest, FreesWhatItHasRecorded) {
  const auto live = [&] {
    eager_.wait();
    return eager_.task().device().allocator().stats().bytes_in_use;
  };
  const Output x = constant(graph_, Tensor::zeros(DType::f64, {1000}));
  const std::uint64_t before = live();
  {
    GradientTape tape;
    tape.watch(x);
    Output loss;
    {
      const Output y = exp(exp(exp(x)));
      loss = sum(y);
    }
    EXPECT_GT(live(), before + 16000) << "the gradients need what was computed";
    const Output dx = tape.gradient(loss, x);
    EXPECT_LT(live(), before + 16000);
  }
  EXPECT_EQ(live(), before);
}

}  // namespace
}  // namespace troupe
