// Loops, as users build and run them: values, shapes, gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Loops : public ::testing::Test {
 protected:
  Output feed(DType dtype, Shape shape = Shape{}) { return placeholder(g, dtype, shape); }
  std::vector<Tensor> run(const Feeds& feeds, const Outputs& fetches) { return Session(g).run(feeds, fetches); }
  float number(const Feeds& feeds, const Output& fetch) { return run(feeds, {fetch})[0].item<float>(); }
  static Tensor scalar(float value) { return Tensor::scalar(value); }
  Output gradient_of(const Output& y, const Output& x) {
    const Outputs ys{y}, xs{x};
    return dense(gradients(ys, xs)[0], x);
  }
  std::string error_of(const Feeds& feeds, const Output& fetch) {
    try {
      run(feeds, {fetch});
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  Graph g;
};

TEST_F(Loops, AWhileLoopReadsTensorsAroundIt) {
  const Output step = feed(DType::f32), bound = feed(DType::f32);
  const Outputs out = while_loop([&](const Outputs& v) { return less(v[0], bound); },
                                 [&](const Outputs& v) {
                                   return Outputs{v[0] + step, v[1] * 2.0};
                                 },
                                 {constant(g, 0.0f), constant(g, 1.0f)});
  const auto found = run({{step, scalar(0.5f)}, {bound, scalar(3)}}, out);
  EXPECT_EQ(found[0].item<float>(), 3.0f);
  EXPECT_EQ(found[1].item<float>(), 64.0f);
  EXPECT_EQ(run({{step, scalar(1)}, {bound, scalar(-1)}}, out)[1].item<float>(), 1.0f);  // not once
}

TEST_F(Loops, AValueMayChangeItsShape) {
  const Output n = feed(DType::i64), x = feed(DType::f32, Shape{2, 3});
  const Outputs out = for_loop(n, [&](Output, const Outputs& v) { return Outputs{concat({v[0], x}, 0)}; }, {x});
  EXPECT_EQ(out[0].shape(), (Shape{kUnknown, 3}));
  const Tensor ones = Tensor::of<float>(Shape{2, 3}, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(run({{n, Tensor::scalar<std::int64_t>(3)}, {x, ones}}, out)[0].shape(), (Shape{8, 3}));
}

TEST_F(Loops, ShapesThatWanderFromValueToValueEndUnknown) {
  constexpr int kValues = 40;
  Outputs values{feed(DType::f32, Shape{2})};
  for (int i = 1; i < kValues; ++i) values.push_back(feed(DType::f32, Shape{3}));
  int built = 0;
  const Outputs out = for_loop(
      constant<std::int64_t>(g, 1),
      [&](Output, const Outputs& v) {
        ++built;
        Outputs next(v.begin() + 1, v.end());
        next.push_back(v[0]);
        return next;
      },
      values);
  EXPECT_LE(built, 10);
  EXPECT_FALSE(out[5].shape().has_rank());
}

TEST_F(Loops, ACountedLoopKnowsItsIteration) {
  const Output n = feed(DType::i64);
  const Outputs out =
      for_loop(n, [&](Output i, const Outputs& v) { return Outputs{v[0] + i * i}; }, {constant<std::int64_t>(g, 0)});
  for (const auto& [count, sum] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 0}, {5, 30}, {-3, 0}})
    EXPECT_EQ(run({{n, Tensor::scalar(count)}}, out)[0].item<std::int64_t>(), sum) << count;
}

TEST_F(Loops, AScanGoesOverRowsForwardsAndBackwards) {
  const Output x = feed(DType::f32, Shape{4});
  for (const bool reverse : {false, true}) {
    const Scanned sums = scan(
        [](const Outputs& state, const Outputs& row) {
          const Output sum = state[0] + row[0];
          return Scanned{{sum}, {sum}};
        },
        {constant(g, 0.0f)}, {x}, {.reverse = reverse});
    EXPECT_EQ(sums.ys[0].shape(), (Shape{4}));
    const auto found = run({{x, Tensor::vector<float>({1, 2, 3, 4})}}, {sums.ys[0], sums.state[0]});
    EXPECT_THAT(found[0].values<float>(), reverse ? ElementsAre(10, 9, 7, 4) : ElementsAre(1, 3, 6, 10));
    EXPECT_EQ(found[1].item<float>(), 10);
  }
}

// d/dx of x^(2^3), and with respect to a tensor around the loop.
TEST_F(Loops, GradientsGoBackThroughIterations) {
  for (const bool recompute : {false, true}) {
    const Output x = feed(DType::f32), w = feed(DType::f32);
    const LoopOptions options{.recompute = recompute};
    const Output squared = for_loop(
        constant<std::int64_t>(g, 3), [&](Output, const Outputs& v) { return Outputs{square(v[0]) * w}; }, {x},
        options)[0];
    const Outputs ys{squared}, xs{x, w};
    const auto found = gradients(ys, xs);
    // y = x^8 w^7
    const Feeds feeds{{x, scalar(1.5f)}, {w, scalar(0.75f)}};
    EXPECT_NEAR(number(feeds, dense(found[0], x)), 8 * std::pow(1.5, 7) * std::pow(0.75, 7), 1e-4);
    EXPECT_NEAR(number(feeds, dense(found[1], w)), 7 * std::pow(1.5, 8) * std::pow(0.75, 6), 1e-4);
  }
}

TEST_F(Loops, GradientsOfAScanAreRows) {
  const Output x = feed(DType::f32, Shape{4});
  const Scanned products = scan(
      [](const Outputs& state, const Outputs& row) {
        const Output product = state[0] * row[0];
        return Scanned{{product}, {product}};
      },
      {constant(g, 1.0f)}, {x});
  const Output gradient = gradient_of(sum(products.ys[0]), x);
  EXPECT_EQ(gradient.shape(), (Shape{4}));
  // y = a + ab + abc + abcd at 1, 2, 3, 4
  const Tensor found = run({{x, Tensor::vector<float>({1, 2, 3, 4})}}, {gradient})[0];
  EXPECT_THAT(found.values<float>(), ElementsAre(1 + 2 + 6 + 24, 1 + 3 + 12, 2 + 8, 6));
}

TEST_F(Loops, SecondDerivatives) {
  for (const bool recompute : {false, true}) {
    const Output x = feed(DType::f32), w = feed(DType::f32);
    const Output y =
        for_loop(constant<std::int64_t>(g, 3), [&](Output, const Outputs& v) { return Outputs{square(v[0]) * w}; }, {x},
                 {.recompute = recompute})[0];
    const Output first = gradient_of(y, x);
    const Feeds feeds{{x, scalar(1.25f)}, {w, scalar(0.75f)}};
    EXPECT_NEAR(number(feeds, gradient_of(first, x)), 56 * std::pow(1.25, 6) * std::pow(0.75, 7), 1e-3);
    EXPECT_NEAR(number(feeds, gradient_of(first, w)), 56 * std::pow(1.25, 7) * std::pow(0.75, 6), 1e-3);
  }
}

// A loop in a loop, with a branch: f(x) = x^4 if the inner count is even, else 2 x^2 ...
TEST_F(Loops, NestedLoopsAndBranches) {
  const Output x = feed(DType::f32);
  const Output y =
      for_loop(constant<std::int64_t>(g, 2),
               [&](Output i, const Outputs& outer) {
                 const Output inner = while_loop([&](const Outputs& v) { return greater(v[1], scalar_like(v[1], 0)); },
                                                 [&](const Outputs& v) {
                                                   return Outputs{v[0] * x, v[1] - 1.0};
                                                 },
                                                 {outer[0], constant(g, 2.0f)})[0];
                 return if_else(
                     equal(i, scalar_like(i, 0)), {}, [&](Graph&, const Outputs&) { return Outputs{inner * 3.0}; },
                     [&](Graph&, const Outputs&) { return Outputs{inner * inner}; });
               },
               {x})[0];
  // i = 0: 3 x x^2; i = 1: (3 x^3 x^2)^2 = 9 x^10
  const Feeds feeds{{x, scalar(1.25f)}};
  EXPECT_NEAR(number(feeds, y), 9 * std::pow(1.25, 10), 1e-3);
  const Output first = gradient_of(y, x);
  EXPECT_NEAR(number(feeds, first), 90 * std::pow(1.25, 9), 1e-2);
  EXPECT_NEAR(number(feeds, gradient_of(first, x)), 810 * std::pow(1.25, 8), 1e-1);
}

// The gradient of x a^n with respect to a is n x a^(n-1).
TEST_F(Loops, TenThousandIterationsBack) {
  const Output a = feed(DType::f64);
  const Output y = for_loop(constant<std::int64_t>(g, 10'000),
                            [&](Output, const Outputs& v) { return Outputs{v[0] * a}; }, {constant(g, 2.0)})[0];
  const double base = 1.0001;
  const double found = run({{a, Tensor::scalar(base)}}, {gradient_of(y, a)})[0].item<double>();
  EXPECT_NEAR(found / (10'000 * 2 * std::pow(base, 9'999)), 1, 1e-9);
}

// Iterations draw other numbers; going back, the same again.
TEST_F(Loops, RandomNumbersOfAnIterationAreDrawnAgain) {
  const Output x = feed(DType::f32, Shape{64});
  for (const bool recompute : {false, true}) {
    const Output y =
        for_loop(constant<std::int64_t>(g, 2), [&](Output, const Outputs& v) { return Outputs{dropout(v[0], 0.5)}; },
                 {x}, {.recompute = recompute})[0];
    const Tensor ones = Tensor::of<float>(Shape{64}, std::vector<float>(64, 1));
    const Output gradient = gradient_of(sum(y), x);
    const auto found = run({{x, ones}}, {y, gradient});
    EXPECT_TRUE(bitwise_equal(found[0], found[1])) << "y = c x";
    const auto kept = std::ranges::count(found[0].values<float>(), 4.0f);
    EXPECT_GT(kept, 4);
    EXPECT_LT(kept, 28) << "two masks that are not the same";
  }
}

TEST_F(Loops, ErrorsNameTheIteration) {
  const Output x = feed(DType::i32);
  const Output y = for_loop(constant<std::int64_t>(g, 5),
                            [&](Output i, const Outputs& v) { return Outputs{v[0] / (2 - cast(i, DType::i32))}; }, {x},
                            {.name = "solve"})[0];
  EXPECT_THAT(error_of({{x, Tensor::scalar<std::int32_t>(7)}}, y),
              ::testing::AllOf(HasSubstr("Loop 'solve'"), HasSubstr("iteration 2"), HasSubstr("division by zero")));
  EXPECT_THAT([&] { for_loop(constant<std::int64_t>(g, 5), [](Output i, const Outputs&) { return Outputs{i}; }, {x}); },
              ::testing::ThrowsMessage<Error>(HasSubstr("value 0 is i32 at first, but the body returns i64")));
}

TEST_F(Loops, ListsAreValues) {
  const Output n = feed(DType::i64);
  const Output list = for_loop(
      n,
      [&](Output i, const Outputs& v) { return Outputs{list_insert(v[0], fill(stack({i}, 0), cast(i, DType::f32)))}; },
      {list_of(g, {})})[0];
  const Output count = list_size(list), joined = list_concat(list, 0, DType::f32),
               last = list_get(list, constant<std::int64_t>(g, -1), DType::f32);
  const auto found = run({{n, Tensor::scalar<std::int64_t>(4)}}, {count, joined, last, list_size(list_erase(list))});
  EXPECT_EQ(found[0].item<std::int64_t>(), 4);
  EXPECT_THAT(found[1].values<float>(), ElementsAre(1, 2, 2, 3, 3, 3));
  EXPECT_THAT(found[2].values<float>(), ElementsAre(3, 3, 3));
  EXPECT_EQ(found[3].item<std::int64_t>(), 3);
}

TEST_F(Loops, AGeneralLoopComputesItsConditionWithItsValues) {
  const Output x = feed(DType::f32), cond = feed(DType::boolean);
  const LoopOutputs out =
      loop(cond,
           [&](Output i, const Outputs& v) {
             const Output next = mul(v[0], x);
             return LoopStep{.again = less(next, scalar_like(next, 100)), .values = {next}, .items = {i, next}};
           },
           {constant(g, 1.0f)}, {.limit = constant<std::int64_t>(g, 5)});
  ASSERT_EQ(out.lists.size(), 2u);
  EXPECT_EQ(out.item_types, (std::vector<DType>{DType::i64, DType::f32}));
  const Output rows = list_stack(out.lists[1], DType::f32, Shape{});
  const auto found = run({{x, scalar(4)}, {cond, Tensor::scalar(true)}}, {rows, out.values[0]});
  EXPECT_THAT(found[0].values<float>(), ElementsAre(4, 16, 64, 256));
  EXPECT_EQ(number({{x, scalar(2)}, {cond, Tensor::scalar(true)}}, out.values[0]), 32.0f);  // the limit
  EXPECT_EQ(number({{x, scalar(2)}, {cond, Tensor::scalar(false)}}, out.values[0]), 1.0f);
}

TEST_F(Loops, ListsAreFedAndFetched) {
  const Output list = feed(DType::list), longer = list_insert(list, constant(g, 7.0f));
  const auto found = run({{list, make_list({scalar(1), make_list({scalar(2)})})}}, {longer});
  ASSERT_EQ(list_items(found[0]).size(), 3u);
  EXPECT_EQ(list_items(list_items(found[0])[1])[0].item<float>(), 2.0f);
  EXPECT_EQ(list_items(found[0])[2].item<float>(), 7.0f);
}

}  // namespace
}  // namespace troupe
