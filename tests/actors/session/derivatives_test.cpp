// Custom gradients, cases, calls, Jacobians and Hessians, as users build and run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/text.hpp>
#include <troupe/graph/gradients/jacobian.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Derivatives : public ::testing::Test {
 protected:
  Output feed(Shape shape) { return placeholder(g, DType::f64, shape); }
  static Tensor vector(std::initializer_list<double> values) { return Tensor::vector<double>(values); }
  std::vector<double> run(const Feeds& feeds, const Output& fetch) {
    const Tensor found = Session(g).run(feeds, fetch);
    return {found.values<double>().begin(), found.values<double>().end()};
  }

  Graph g;
};

// f(x) = (x0 x1, exp(x1), x0^2)
TEST_F(Derivatives, AJacobianHasARowForEachElement) {
  for (const bool known : {true, false}) {
    const Output x = feed(known ? Shape{2} : Shape{kUnknown});
    const Output a = gather(x, constant<std::int64_t>(g, 0)), b = gather(x, constant<std::int64_t>(g, 1));
    const Output y = stack({a * b, exp(b), square(a)}, 0);
    const Output j = jacobian(y, x);
    if (known) {
      EXPECT_EQ(j.shape(), (Shape{3, 2}));
    }
    EXPECT_THAT(run({{x, vector({2, 3})}}, j), ElementsAre(3, 2, 0, std::exp(3.0), 4, 0));
  }
}

TEST_F(Derivatives, AJacobianOfALoopAndOfMatrices) {
  const Output x = feed(Shape{2, 2});
  const Output y = for_loop(constant<std::int64_t>(g, 2), [&](Output, const Outputs& v) { return Outputs{v[0] * x}; },
                            {x})[0];  // x^3
  const Output j = jacobian(y, x);
  EXPECT_EQ(j.shape(), (Shape{2, 2, 2, 2}));
  EXPECT_THAT(run({{x, Tensor::of<double>(Shape{2, 2}, {1, 2, 3, 4})}}, j),
              ElementsAre(3, 0, 0, 0, 0, 12, 0, 0, 0, 0, 27, 0, 0, 0, 0, 48));
}

// y = x0^2 x1 + x1^3: H = [2 x1, 2 x0; 2 x0, 6 x1]
TEST_F(Derivatives, AHessianTimesAVector) {
  const Output x = feed(Shape{2}), v = feed(Shape{2}), other = feed(Shape{});
  const Output a = gather(x, constant<std::int64_t>(g, 0)), b = gather(x, constant<std::int64_t>(g, 1));
  const Output y = square(a) * b + b * square(b);
  const std::vector<Output> found = hessian_vector_product(y, Outputs{x, other}, Outputs{v, other});
  const Feeds feeds{{x, vector({2, 3})}, {v, vector({1, 10})}, {other, Tensor::scalar(7.0)}};
  EXPECT_THAT(run(feeds, found[0]), ElementsAre(6 + 40, 4 + 180));
  EXPECT_THAT(run(feeds, found[1]), ElementsAre(0));
}

TEST_F(Derivatives, ACustomGradientTakesThePlaceOfTheOps) {
  const Output x = feed(Shape{2}), scale = feed(Shape{});
  // The identity, with gradients that are scaled and clipped.
  const Output y = custom_gradient(
      {.forward = [](const Outputs& xs) { return Outputs{square(xs[0]) / xs[0]}; },
       .backward = [&](const Outputs&, const Outputs&,
                       const Outputs& dys) { return Outputs{minimum(dys[0] * scale, scalar_like(dys[0], 5))}; }},
      {x})[0];
  const Outputs ys{sum(y * y)}, xs{x};
  const Feeds feeds{{x, vector({1, 4})}, {scale, Tensor::scalar(0.75)}};
  EXPECT_THAT(run(feeds, y), ElementsAre(1, 4));
  EXPECT_THAT(run(feeds, dense(gradients(ys, xs)[0], x)), ElementsAre(1.5, 5));
}

TEST_F(Derivatives, CasesAndCalls) {
  const Output index = placeholder(g, DType::i32, Shape{}), x = feed(Shape{});
  std::vector<BranchFn> branches;
  for (int i = 0; i < 5; ++i) branches.push_back([i](Graph&, const Outputs& in) { return Outputs{in[0] + 10.0 * i}; });
  const Output y = switch_case(index, {x}, branches)[0];
  for (const auto& [at, expected] : {std::pair{0, 1.0}, {1, 11.0}, {3, 31.0}, {4, 41.0}, {5, 41.0}, {-1, 41.0}})
    EXPECT_THAT(run({{index, Tensor::scalar<std::int32_t>(at)}, {x, Tensor::scalar(1.0)}}, y), ElementsAre(expected))
        << at;
  if_else(less(x, scalar_like(x, 0)), {x}, branches[1], branches[2], "choice");
  EXPECT_THAT(run({{x, Tensor::scalar(2.0)}}, call(g, "choice/else", {x * x})[0]), ElementsAre(24));
  EXPECT_THAT([&] { call(g, "choice/else", {index}); },
              ThrowsMessage<Error>(HasSubstr("function 'choice/else': argument 0 must be f64, not i32")));
}

TEST_F(Derivatives, BodiesRefuseWhatCannotRunInThem) {
  const Output x = feed(Shape{});
  const auto loop = [&](const LoopBody& body) {
    return
        [&, body] { for_loop(constant<std::int64_t>(g, 2), [&](Output, const Outputs& v) { return body(v); }, {x}); };
  };
  EXPECT_THAT(loop([](const Outputs& v) {
                const auto device = v[0].graph->on_device("/device:GPU:0");
                return Outputs{v[0] * 2.0};
              }),
              ThrowsMessage<Error>(HasSubstr("is to run on /device:GPU:0, but all of the body 'Loop/body' runs on one "
                                             "device: that of its branch or loop")));
  EXPECT_THAT(loop([](const Outputs& v) {
                const VariableRef w = variable(*v[0].graph, {.name = "w", .shape = Shape{}, .dtype = DType::f64});
                return Outputs{v[0] * w.read()};
              }),
              ThrowsMessage<Error>(HasSubstr("cannot be in the body 'Loop/body': make it before")));
  const auto device = g.on_device("/device:CPU:0");
  EXPECT_NO_THROW(loop([](const Outputs& v) {
    const auto same = v[0].graph->on_device("/device:CPU:0");
    return Outputs{v[0] * 2.0};
  })());
}

}  // namespace
}  // namespace troupe
