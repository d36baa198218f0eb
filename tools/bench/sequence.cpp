// Sequence models, forward and backward in one step, compared with TensorFlow and jax.
#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::bench {
namespace {

Contest lstm_contest(const Settings& settings) {
  const std::int64_t batch = settings.quick ? 2 : 32, steps = settings.quick ? 3 : 64,
                     inputs = settings.quick ? 4 : 128, units = settings.quick ? 5 : 256;
  auto small = [](Tensor t) {
    for (float& x : t.mutable_values<float>()) x *= 0.1f;
    return t;
  };
  Tensor bias = small(random_tensor({1, 8 * units}, 4));
  std::fill_n(bias.mutable_data<float>() + 4 * units, 4 * units, 0.0f);  // Keras has one bias
  const auto step = std::make_shared<ComparedStep>(
      ComparedStep::Inputs{{"x", random_tensor({batch, steps, inputs}, 1)},
                           {"w", small(random_tensor({1, 4 * units, inputs}, 2))},
                           {"r", small(random_tensor({1, 4 * units, units}, 3))},
                           {"bias", bias},
                           {"dy", random_tensor({batch, steps, 1, units}, 5)}},
      [](const Outputs& in) -> ComparedStep::Results {
        const Output y = lstm(in[0], in[1], in[2], {.batch_major = true, .bias = in[3]}).y;
        const auto flows = gradients(Outputs{y}, Outputs{in[0], in[1], in[2], in[3]}, {.grad_ys = {in[4]}});
        return {{"y", y},
                {"dx", flows[0].dense},
                {"dw", flows[1].dense},
                {"dr", flows[2].dense},
                {"dbias", flows[3].dense}};
      });
  return compare_with(step, {"lstm"}, settings, kMilli);
}

Contest attention_contest(const Settings& settings) {
  const Shape shape = settings.quick ? Shape{2, 5, 4} : Shape{8, 512, 64};
  const auto step = std::make_shared<ComparedStep>(
      ComparedStep::Inputs{{"q", random_tensor(shape, 1)},
                           {"k", random_tensor(shape, 2)},
                           {"v", random_tensor(shape, 3)},
                           {"dy", random_tensor(shape, 4)}},
      [](const Outputs& in) -> ComparedStep::Results {
        const Output y = attention(in[0], in[1], in[2], {.causal = true});
        const auto flows = gradients(Outputs{y}, Outputs{in[0], in[1], in[2]}, {.grad_ys = {in[3]}});
        return {{"y", y}, {"dq", flows[0].dense}, {"dk", flows[1].dense}, {"dv", flows[2].dense}};
      });
  return compare_with(step, {"attention", "attention-fused"}, settings, kMilli);
}

}  // namespace

void add_sequence_cases(std::vector<Case>& cases) {
  cases.push_back(
      {.bench = "lstm",
       .name = "32x64x128-256",
       .unit = "ms",
       .measures = "an LSTM of 256 units over 64 steps of 128 inputs, batch 32, forward and backward; 1 thread",
       .peer = "TensorFlow's Keras LSTM in a tf.function, 1 thread",
       .ratio_target = 1.35,
       .prepare = lstm_contest});
  cases.push_back({.bench = "attention",
                   .name = "causal-8x512x64",
                   .unit = "ms",
                   .measures = "causal attention of 8 heads, 512 positions, depth 64, forward and backward; 1 thread",
                   .peer = "the better of jax's dot_product_attention and a softmax in jax, jitted, 1 thread",
                   .ratio_target = 1.5,
                   .prepare = attention_contest});
}

}  // namespace troupe::bench
