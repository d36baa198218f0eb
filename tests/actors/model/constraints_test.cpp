// ConstrainVariable against the same constraint composed of ops, and by hand.
#include <gtest/gtest.h>

#include <cmath>

#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/weights.hpp>

namespace troupe {
namespace {

// Weights [3,2,4] of norms from small to large.
Tensor weights() {
  Tensor out(DType::f64, Shape{3, 2, 4});
  for (std::int64_t i = 0; i < 24; ++i)
    out.mutable_data<double>()[i] = (i % 5 - 2) * std::pow(1.3, static_cast<double>(i % 7)) / 2;
  return out;
}

struct Both {
  Tensor op, composed;  // f64
};
Both both(DType dtype, const Constraint& constraint) {
  Graph graph;
  const Output first = cast(constant(graph, weights()), dtype);
  const VariableRef w = variable(graph, {.name = "w", .initial_value = first, .shape = Shape{3, 2, 4}, .dtype = dtype});
  const Output composed = cast(constrained(first, constraint), DType::f64);
  const Output after = constrain(w, constraint);
  Output op;
  {
    const auto then = graph.after({after});
    op = cast(w.fresh_read(), DType::f64);
  }
  const Output init = initializer(graph);
  Session session(graph);
  session.run_targets({init});
  const auto values = session.run({op, composed});
  return {values[0], values[1]};
}

TEST(ConstrainVariable, IsTheConstraintMadeOfOps) {
  const std::vector<Constraint> all = {constraints::max_norm(1.5),
                                       constraints::max_norm(2, {0, 1}),
                                       constraints::unit_norm({2}),
                                       constraints::unit_norm({0, 1, 2}),
                                       constraints::min_max_norm(1, 2, 0.5, {1}),
                                       constraints::min_max_norm(2, 3),
                                       constraints::non_negative(),
                                       constraints::max_norm(1e9)};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const Constraint& constraint : all) {
      const Both found = both(dtype, constraint);
      const double tolerance = dtype == DType::f64 ? 1e-6 : dtype == DType::f32 ? 1e-5 : 0.03;
      for (std::int64_t i = 0; i < 24; ++i)
        EXPECT_NEAR(found.op.data<double>()[i], found.composed.data<double>()[i], tolerance)
            << name(dtype) << " " << static_cast<int>(constraint.kind) << " element " << i;
    }
}

TEST(ConstrainVariable, LeavesWeightsWithinTheBoundsAsTheyAre) {
  const Both found = both(DType::f32, constraints::max_norm(1e3));
  const Tensor before = weights();
  for (std::int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(found.op.data<double>()[i], static_cast<float>(before.data<double>()[i]));
}

}  // namespace
}  // namespace troupe
