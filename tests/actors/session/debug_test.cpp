// Assertions, prints, checks of numerics, and calls of the program, as users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Debugging : public ::testing::Test {
 protected:
  static Tensor vector(std::initializer_list<float> values) { return Tensor::vector<float>(values); }
  static std::string error_of(Session& session, const Feeds& feeds, const Output& fetch,
                              const std::vector<Output>& targets = {}) {
    try {
      session.run(feeds, std::vector<Output>{fetch}, targets);
    } catch (const Error& error) {
      return fmt::format("{}: {}", name(error.code()), error.message());
    }
    return "";
  }

  Graph g;
  Output x = placeholder(g, DType::f32, Shape{kUnknown}, "x");
};

TEST_F(Debugging, AnAssertionStopsTheStepWithItsData) {
  const Output positive = assert_true(greater(x, scalar_like(x, 0)), {x},
                                      {.message = "x must be positive", .summarize = 2, .name = "check"});
  Output y;
  {
    const auto order = g.after({positive});
    y = log(x);
  }
  Session session(g);
  EXPECT_EQ(session.run({{x, vector({1})}}, y).item<float>(), 0.0f);
  EXPECT_THAT(error_of(session, {{x, vector({3, 2, -1})}}, y),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("Assert 'check'"),
                    HasSubstr("x must be positive: f32[3] = 3 2")));
}

TEST_F(Debugging, PrintsGoToStderrAndChangeNothing) {
  const Output y = print(x * 2.0, {x, constant(g, std::string("a word"))}, {.message = "doubling"});
  const Outputs ys{sum(y)}, xs{x};
  const Output dx = dense(gradients(ys, xs)[0], x);
  Session session(g);
  ::testing::internal::CaptureStderr();
  const auto found = session.run({{x, vector({1, 2})}}, {y, dx});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("doubling f32[2] = 1 2; string[] = a word\n"));
  EXPECT_EQ(found[0].values<float>()[1], 4.0f);
  EXPECT_EQ(found[1].values<float>()[1], 2.0f);
}

TEST_F(Debugging, CheckedNumericsNameTheElement) {
  const Output y = check_numerics(x, "the input");
  // The gradient is infinite where the value is not.
  const Outputs ys{sum(sqrt(check_numerics(x, "x")))}, xs{x};
  const Output dx = dense(gradients(ys, xs)[0], x);
  Session session(g);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of(session, {{x, vector({1, 2})}}, y), "");
  EXPECT_THAT(error_of(session, {{x, vector({1, -infinity})}}, y),
              HasSubstr("the input is not finite: element 1 of f32[2] is -infinite; in step"));
  EXPECT_THAT(error_of(session, {{x, vector({0, 2})}}, dx),
              HasSubstr("the gradient: x is not finite: element 0 of f32[2] is infinite"));
}

TEST_F(Debugging, ASessionNamesTheFirstNodeThatMakesANan) {
  const Output shifted = sub(x, scalar_like(x, 1), "shifted");
  const Output logarithm = log(shifted, "logarithm");
  const Output y = sum(exp(logarithm) * 0.0, {}, {.name = "total"});
  const Output loop = for_loop(constant<std::int64_t>(g, 3),
                               [&](Output, const Outputs& v) { return Outputs{div(v[0], v[0] - 1.0, "quotient")}; },
                               {x}, {.name = "iterate"})[0];
  Session session(g, {.check_numerics = true});
  EXPECT_EQ(error_of(session, {{x, vector({2, 3})}}, y), "");
  EXPECT_THAT(error_of(session, {{x, vector({2, 0.5f, 3})}}, y),
              AllOf(HasSubstr("Log 'logarithm' makes a number that is not finite: element 1 of f32[3] is NaN"),
                    HasSubstr("input 0: f32[3] from -0.5 to 2; in step"), Not(HasSubstr("total"))));
  EXPECT_THAT(error_of(session, {{x, vector({2, 1})}}, loop),
              AllOf(HasSubstr("iteration 0"), HasSubstr("Div 'iterate/body/quotient' makes a number"),
                    HasSubstr("element 1 of f32[2] is infinite")));
  // Values keep their bits.
  Session plain(g);
  const Feeds feeds{{x, vector({2, 3.25f})}};
  EXPECT_TRUE(bitwise_equal(session.run(feeds, logarithm), plain.run(feeds, logarithm)));
}

TEST_F(Debugging, TheProgramIsCalled) {
  std::vector<float> seen;
  const Outputs out = host_call(
      [&seen](std::span<const Tensor> in) {
        for (const float v : in[0].values<float>()) seen.push_back(v);
        if (seen.size() > 2) fail(Code::out_of_range, "seen enough");
        return std::vector<Tensor>{in[0], Tensor::scalar<std::int64_t>(std::ssize(seen))};
      },
      {x}, {DType::f32, DType::i64}, "look");
  const Output y = out[0] + cast(out[1], DType::f32);
  Session session(g);
  EXPECT_EQ(session.run({{x, vector({1, 2})}}, y).values<float>()[1], 4.0f);
  EXPECT_EQ(seen, (std::vector<float>{1, 2}));
  EXPECT_THAT(error_of(session, {{x, vector({3})}}, y), AllOf(HasSubstr("HostCall 'look'"), HasSubstr("seen enough")));
}

TEST_F(Debugging, AFunctionOfAnotherProcessIsRefused) {
  const Output y = add_outputs(
      "HostCall", {x},
      {{"function", std::int64_t{0}}, {"process", std::int64_t{1}}, {"Tout", std::vector<DType>{DType::f32}}})[0];
  Session session(g);
  EXPECT_THAT(error_of(session, {{x, vector({1})}}, y), HasSubstr("belongs to the process that built the graph"));
}

}  // namespace
}  // namespace troupe
