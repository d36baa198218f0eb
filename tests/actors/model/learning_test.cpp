// Models that must learn something hard: the first lines say what.
#include <gtest/gtest.h>

#include <random>

#include <troupe/actors/model/model.hpp>

namespace troupe {
namespace {

// Two numbers of a sequence are marked, one of each half; the target is their sum (Hochreiter & Schmidhuber, "Long
// short-term memory", 1997, section 5.4).
TensorDataset adding(std::int64_t examples, std::int64_t steps, unsigned seed) {
  std::mt19937 random(seed);
  Tensor x = Tensor::zeros(DType::f32, Shape{examples, steps, 2}), y(DType::f32, Shape{examples, 1});
  const auto half = static_cast<std::uint32_t>(steps / 2);
  for (std::int64_t i = 0; i < examples; ++i) {
    float* sequence = x.mutable_data<float>() + i * steps * 2;
    for (std::int64_t t = 0; t < steps; ++t) sequence[2 * t] = static_cast<float>(random()) * 0x1p-32F;
    const std::uint32_t first = random() % half, second = half + random() % half;
    sequence[2 * first + 1] = sequence[2 * second + 1] = 1;
    y.mutable_data<float>()[i] = sequence[2 * first] + sequence[2 * second];
  }
  return TensorDataset({{"x", x}, {"y", y}});
}

// Always saying 1 has an error of 1/6.
TEST(Learning, AnLstmAddsOverFiftySteps) {
  Model model({layers::lstm(24), layers::dense(1)}, Shape{50, 2});
  model.compile({.optimizer = optimizers::Adam{.learning_rate = 0.01},
                 .loss = Loss::mean_squared_error,
                 .clipping = {.global_norm = 1}});
  model.fit(adding(4000, 50, 1), {.epochs = 20, .batch = 50, .quiet = true});
  EXPECT_LT(model.evaluate(adding(500, 50, 2))["loss"], 0.01);
}

}  // namespace
}  // namespace troupe
