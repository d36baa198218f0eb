// Initializers by what defines them; constraints and regularizers beside Keras 3.
#include "troupe/graph/layers/weights.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/layers/layer_values.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::evaluate;
using testing::expect_near;
using testing::message_of;
using testing::weight_pattern;

std::vector<double> drawn(const Initializer& initializer, const WeightSpec& spec) {
  Graph graph;
  identity(initializer(graph, spec), "y");
  const Tensor value = evaluate(graph, {}).at("y");
  EXPECT_EQ(value.shape(), spec.shape);
  if (spec.dtype == DType::f64) return {value.values<double>().begin(), value.values<double>().end()};
  return {value.values<float>().begin(), value.values<float>().end()};
}

struct Spread {
  double mean = 0, deviation = 0, least = 0, greatest = 0;
};

Spread spread_of(const Initializer& initializer, double fan_in, double fan_out) {
  const std::vector<double> values =
      drawn(initializer, {.shape = Shape{100, 200}, .fan_in = fan_in, .fan_out = fan_out});
  Spread s{.least = values[0], .greatest = values[0]};
  for (const double v : values) {
    s.mean += v / static_cast<double>(values.size());
    s.least = std::min(s.least, v);
    s.greatest = std::max(s.greatest, v);
  }
  for (const double v : values) s.deviation += (v - s.mean) * (v - s.mean) / static_cast<double>(values.size());
  s.deviation = std::sqrt(s.deviation);
  return s;
}

TEST(Initializers, UniformOnesFillTheirInterval) {
  const std::vector<std::pair<Initializer, double>> cases = {{initializers::glorot_uniform(), std::sqrt(6.0 / 40)},
                                                             {initializers::he_uniform(), std::sqrt(6.0 / 10)},
                                                             {initializers::lecun_uniform(), std::sqrt(3.0 / 10)},
                                                             {initializers::random_uniform(-0.3, 0.3), 0.3}};
  for (const auto& [initializer, limit] : cases) {
    SCOPED_TRACE(initializer.kind());
    const Spread s = spread_of(initializer, 10, 30);
    EXPECT_NEAR(s.mean, 0, 0.02 * limit);
    EXPECT_NEAR(s.greatest, limit, 0.01 * limit);
    EXPECT_NEAR(s.least, -limit, 0.01 * limit);
    EXPECT_NEAR(s.deviation, limit / std::sqrt(3), 0.02 * limit);
  }
}

// The variance of a normal distribution truncated at two deviations is 0.774 of that before.
TEST(Initializers, NormalOnesAreTruncatedAtTwoDeviations) {
  const std::vector<std::pair<Initializer, double>> cases = {{initializers::glorot_normal(), std::sqrt(2.0 / 40)},
                                                             {initializers::he_normal(), std::sqrt(2.0 / 10)},
                                                             {initializers::lecun_normal(), std::sqrt(1.0 / 10)},
                                                             {initializers::truncated_normal(0, 0.3), 0.3}};
  for (const auto& [initializer, deviation] : cases) {
    SCOPED_TRACE(initializer.kind());
    const Spread s = spread_of(initializer, 10, 30);
    EXPECT_NEAR(s.mean, 0, 0.03 * deviation);
    EXPECT_NEAR(s.deviation, 0.8796 * deviation, 0.02 * deviation);
    EXPECT_LE(s.greatest, 2 * deviation * 1.00001);
    EXPECT_GT(s.greatest, 1.9 * deviation);
  }
  const Spread whole = spread_of(initializers::random_normal(1, 0.5), 1, 1);
  EXPECT_NEAR(whole.mean, 1, 0.02);
  EXPECT_NEAR(whole.deviation, 0.5, 0.02);
  EXPECT_GT(whole.greatest, 1 + 3 * 0.5);
}

TEST(Initializers, OrthogonalOnesHaveOrthonormalRowsOrColumns) {
  for (const Shape& shape : {Shape{7, 4}, Shape{4, 7}, Shape{2, 3, 5}, Shape{6, 6}}) {
    SCOPED_TRACE(shape.to_string());
    const std::vector<double> q = drawn(initializers::orthogonal(2), {.dtype = DType::f64, .shape = shape});
    const auto columns = static_cast<std::size_t>(shape[-1]), rows = q.size() / columns;
    const bool tall = rows >= columns;
    const std::size_t vectors = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](std::size_t v, std::size_t i) { return tall ? q[i * columns + v] : q[v * columns + i]; };
    for (std::size_t a = 0; a < vectors; ++a)
      for (std::size_t b = 0; b < vectors; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        EXPECT_NEAR(product, a == b ? 4 : 0, 1e-9) << a << ", " << b;
      }
  }
}

TEST(Initializers, ConstantsAndIdentity) {
  EXPECT_EQ(drawn(initializers::constant(0.5), {.shape = Shape{2}}), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(drawn(initializers::identity(2), {.shape = Shape{2, 3}}), (std::vector<double>{2, 0, 0, 0, 2, 0}));
  Graph graph;
  EXPECT_EQ(message_of([&] { initializers::identity()(graph, {.shape = Shape{2}}); }),
            "identity: the weight is [2], but must be a matrix");
  EXPECT_EQ(message_of([&] { initializers::orthogonal()(graph, {.shape = Shape{2}}); }),
            "orthogonal: the weight is [2], but must have two dimensions or more");
  EXPECT_EQ(message_of([] { Initializer("he", {}); }), "there is no initializer 'he'");
  EXPECT_EQ(message_of([] { Initializer("constant", {}); }), "initializer 'constant' has 1 options, but 0 are given");
  EXPECT_EQ(message_of([] { initializers::constant(INFINITY); }),
            "initializer 'constant': value must be finite, not inf");
}

Tensor value_of(const Tensor& weight, Output (*f)(Output, const Constraint&), const Constraint& constraint) {
  Graph graph;
  identity(f(constant(graph, weight), constraint), "y");
  return evaluate(graph, {}).at("y");
}

TEST(Constraints, AreThoseOfKeras) {
  const Tensor w = weight_pattern(Shape{3, 4}, 0);
  expect_near(value_of(w, constrained, constraints::max_norm(1)), Shape{3, 4},
              {-0.7499999, -0.125, 0.4999999, -0.4999999, 0.125, 0.7499999, -0.25, 0.3749999, -0.6249999, 0, 0.6249999,
               -0.3749999});
  expect_near(value_of(w, constrained, constraints::min_max_norm(0.5, 1, 0.75, {1})), Shape{3, 4},
              {-0.7292363, -0.1215394, 0.4861575, -0.4861575, 0.125, 0.7499999, -0.25, 0.3749999, -0.6249999, 0,
               0.6249999, -0.3749999});
  expect_near(value_of(w, constrained, constraints::unit_norm()), Shape{3, 4},
              {-0.7620007, -0.164399, 0.5962847, -0.6859943, 0.1270001, 0.9863937, -0.2981424, 0.5144957, -0.6350006, 0,
               0.7453559, -0.5144957});
  expect_near(value_of(w, constrained, constraints::non_negative()), Shape{3, 4},
              {0, 0, 0.5, 0, 0.125, 0.75, 0, 0.375, 0, 0, 0.625, 0});
  expect_near(value_of(weight_pattern(Shape{2, 2, 2, 2}, 0), constrained, constraints::max_norm(0.9, {0, 1, 2})),
              Shape{2, 2, 2, 2},
              {-0.510252, -0.08115026, 0.340168, -0.3246011, 0.085042, 0.4869016, -0.170084, 0.2434508, -0.42521, 0,
               0.42521, -0.2434508, 0.170084, -0.4869016, -0.085042, 0.3246011});
  expect_near(value_of(w, constrained, {}), Shape{3, 4}, {w.values<float>().begin(), w.values<float>().end()}, 0);
}

TEST(Regularizers, AreThoseOfKeras) {
  const auto cost = [](const Regularizer& regularizer) {
    Graph graph;
    identity(penalty(constant(graph, weight_pattern(Shape{3, 4}, 0)), regularizer), "y");
    return evaluate(graph, {}).at("y").item<float>();
  };
  EXPECT_FLOAT_EQ(cost(regularizers::l1(0.5)), 2.5);
  EXPECT_FLOAT_EQ(cost(regularizers::l2(0.25)), 0.6953125);
  EXPECT_FLOAT_EQ(cost(regularizers::l1_l2(0.5, 0.25)), 3.1953125);
}

TEST(WeightOptions, ThatNoWeightFitsAreRefused) {
  const auto error = [](const WeightOptions& kernel) {
    return message_of([&] { layers::dense(2, Activation::none, {.kernel = kernel}); });
  };
  EXPECT_EQ(error({.regularizer = regularizers::l2(-1)}),
            "dense: weight 'kernel': factors of a regularizer must be finite and not negative, not 0 and -1");
  EXPECT_EQ(error({.constraint = constraints::max_norm(-1)}),
            "dense: weight 'kernel': bounds of a norm must be 0 <= low <= high, not 0 and -1");
  EXPECT_EQ(error({.constraint = constraints::min_max_norm(2, 1)}),
            "dense: weight 'kernel': bounds of a norm must be 0 <= low <= high, not 2 and 1");
  EXPECT_EQ(error({.constraint = constraints::min_max_norm(0, 1, 1.5)}),
            "dense: weight 'kernel': the rate of a constraint must be in [0, 1], not 1.5");
}

// ---- Noise in training

double mean_of(const Tensor& t) {
  double sum = 0;
  for (const float v : t.values<float>()) sum += v;
  return sum / static_cast<double>(t.num_elements());
}

double deviation_of(const Tensor& t) {
  const double mean = mean_of(t);
  double sum = 0;
  for (const float v : t.values<float>()) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / static_cast<double>(t.num_elements()));
}

Tensor filled(const Shape& shape, float value) {
  Tensor t(DType::f32, shape);
  std::fill_n(t.mutable_data<float>(), t.num_elements(), value);
  return t;
}

TEST(NoiseLayers, HaveTheMomentsTheyPromise) {
  const Tensor x = filled(Shape{100, 200}, 2);
  const auto noisy = [&](const LayerPtr& layer) { return testing::apply_layer(layer, {x}, true).outputs[0]; };
  const Tensor noise = noisy(layers::gaussian_noise(0.5));
  EXPECT_NEAR(mean_of(noise), 2, 0.02);
  EXPECT_NEAR(deviation_of(noise), 0.5, 0.02);
  const Tensor times = noisy(layers::gaussian_dropout(0.2));
  EXPECT_NEAR(mean_of(times), 2, 0.03);
  EXPECT_NEAR(deviation_of(times), 2 * std::sqrt(0.2 / 0.8), 0.03);
  // Keras: a (x or -1.7580993) + b with a = 1 / sqrt((1 - rate) (1 + rate 1.7580993^2)), b = a rate 1.7580993.
  const Tensor alpha = noisy(layers::alpha_dropout(0.25));
  const double a = 1 / std::sqrt(0.75 * (1 + 0.25 * 1.7580993 * 1.7580993)), b = a * 0.25 * 1.7580993;
  int dropped = 0;
  for (const float v : alpha.values<float>()) {
    const bool drops = v < 0;
    dropped += drops;
    EXPECT_NEAR(v, a * (drops ? -1.7580993 : 2.0) + b, 1e-5);
  }
  EXPECT_NEAR(dropped, 0.25 * 20000, 400);
}

TEST(NoiseLayers, SpatialDropoutDropsWholeChannels) {
  const Tensor y = testing::apply_layer(layers::spatial_dropout(0.5), {filled(Shape{4, 3, 2, 16}, 1)}, true).outputs[0];
  int dropped = 0;
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t c = 0; c < 16; ++c) {
      const float first = y.values<float>()[n * 96 + c];
      dropped += first == 0;
      for (std::size_t place = 0; place < 6; ++place) EXPECT_EQ(y.values<float>()[n * 96 + place * 16 + c], first);
      EXPECT_TRUE(first == 0 || first == 2);
    }
  EXPECT_GT(dropped, 16);
  EXPECT_LT(dropped, 48);
}

TEST(NoiseLayers, DoNothingOutsideTraining) {
  const Tensor x = filled(Shape{2, 3, 4}, 2);
  for (const LayerPtr& layer : {layers::dropout(0.5), layers::spatial_dropout(0.5), layers::gaussian_noise(1),
                                layers::gaussian_dropout(0.5), layers::alpha_dropout(0.5)})
    EXPECT_TRUE(bitwise_equal(testing::apply_layer(layer, {x}).outputs[0], x)) << layer->kind();
  EXPECT_EQ(message_of([] { layers::gaussian_noise(-1); }),
            "gaussian_noise: stddev must be finite and not negative, not -1");
}

}  // namespace
}  // namespace troupe
