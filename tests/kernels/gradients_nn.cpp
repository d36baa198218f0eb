// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> nn_gradients() {
  std::vector<GradientCase> out;
  out.push_back(
      {.name = "SoftmaxAxis", .shapes = {{3, 4, 2}}, .build = of([](auto& x) { return softmax(x[0], {.axis = 1}); })});
  out.push_back({.name = "LogSoftmaxAxis", .shapes = {{3, 4, 2}}, .build = of([](auto& x) {
                                                                    return log_softmax(x[0], {.axis = 0});
                                                                  })});
  out.push_back({.name = "SparseCrossEntropyAxis", .shapes = {{2, 3, 2}}, .build = [](Graph& g, const Outputs& x) {
                   const Output labels = constant(g, Tensor::of<std::int64_t>(Shape{2, 2}, {0, 2, -7, 1}));
                   return add_outputs(
                       "SparseSoftmaxCrossEntropy", {x[0], labels},
                       {{"axis", std::int64_t{1}}, {"ignore_index", std::int64_t{-7}}, {"label_smoothing", 0.2}});
                 }});
  out.push_back({.name = "CrossEntropyAxis", .shapes = {{2, 3, 2}, {2, 3, 2}}, .build = [](Graph&, const Outputs& x) {
                   const Output labels = softmax(x[1], {.axis = 1});
                   Outputs out = add_outputs("SoftmaxCrossEntropy", {x[0], labels}, {{"axis", std::int64_t{1}}});
                   out.push_back(softmax_cross_entropy(x[0], labels, {.axis = 1, .label_smoothing = 0.1}));
                   return out;
                 }});
  out.push_back({.name = "GroupNorm",
                 .shapes = {{2, 4, 3}, {4}, {4}},
                 .build = of([](auto& x) { return group_norm(x[0], x[1], x[2], 2, {.epsilon = 0.1}); })});
  out.push_back({.name = "InstanceNorm",
                 .shapes = {{2, 3, 4}, {3}, {3}},
                 .build = of([](auto& x) { return instance_norm(x[0], x[1], x[2], {.epsilon = 0.1}); })});
  out.push_back({.name = "RMSNorm", .shapes = {{3, 4}, {4}}, .build = of([](auto& x) {
                                                               return rms_norm(x[0], x[1], {.epsilon = 0.1});
                                                             })});
  out.push_back({.name = "LayerNormAxis",
                 .shapes = {{3, 2, 2}, {2, 2}, {2, 2}},
                 .build = of([](auto& x) { return layer_norm(x[0], x[1], x[2], {.epsilon = 0.1, .axis = 1}); })});
  out.push_back({.name = "CTCLoss",
                 .shapes = {{5, 2, 3}},
                 .build =
                     [](Graph& g, const Outputs& x) {
                       const Output labels = constant(g, Tensor::of<std::int64_t>(Shape{2, 2}, {1, 1, 2, 0}));
                       const Output frames = constant<std::int64_t>(g, {5, 4});
                       const Output counts = constant<std::int64_t>(g, {2, 1});
                       return Outputs{ctc_loss(x[0], labels, frames, counts)};
                     },
                 .twice = false});
  out.push_back({.name = "LocalResponseNorm",
                 .shapes = {{2, 3, 2}},
                 .build = of([](auto& x) { return local_response_norm(x[0], 2, {.alpha = 0.5}); }),
                 .dynamic = false});
  out.push_back({.name = "Softmax", .shapes = {{3, 4}}, .build = of([](auto& x) { return softmax(x[0]); })});
  out.push_back({.name = "LogSoftmax", .shapes = {{3, 4}}, .build = of([](auto& x) { return log_softmax(x[0]); })});
  out.push_back({.name = "SoftmaxGrad", .shapes = {{3, 4}, {3, 4}}, .build = op("SoftmaxGrad")});
  out.push_back({.name = "LogSoftmaxGrad", .shapes = {{3, 4}, {3, 4}}, .build = op("LogSoftmaxGrad")});
  out.push_back({.name = "SparseSoftmaxCrossEntropy", .shapes = {{3, 4}}, .build = [](Graph& g, const Outputs& x) {
                   return add_outputs("SparseSoftmaxCrossEntropy", {x[0], constant<std::int64_t>(g, {2, 0, 3})});
                 }});
  out.push_back({.name = "SoftmaxCrossEntropy", .shapes = {{3, 4}, {3, 4}}, .build = [](Graph&, const Outputs& x) {
                   return add_outputs("SoftmaxCrossEntropy", {x[0], softmax(x[1])});
                 }});
  out.push_back({.name = "SigmoidCrossEntropy", .shapes = {{3, 4}, {3, 4}}, .build = of([](auto& x) {
                                                                              return sigmoid_cross_entropy(x[0], x[1]);
                                                                            })});
  const std::vector<Shape> normalised = {{3, 2, 4}, {4}, {4}};
  for (const bool relu : {false, true}) {
    const std::string suffix = relu ? "Relu" : "";
    out.push_back(
        {.name = "BatchNorm" + suffix,
         .shapes = normalised,
         .build = of([=](auto& x) { return batch_norm(x[0], x[1], x[2], {.epsilon = 0.01, .relu = relu}).y; })});
    out.push_back({.name = "BatchNormInference" + suffix,
                   .shapes = {{3, 2, 4}, {4}, {4}, {4}, {4}},
                   .build = of([=](auto& x) {
                     return batch_norm_inference(x[0], x[1], x[2], x[3], square(x[4]) + 0.5,
                                                 {.epsilon = 0.01, .relu = relu});
                   }),
                   .twice = !relu});
  }
  out.push_back({.name = "LayerNorm", .shapes = normalised, .build = of([](auto& x) {
                                                              return layer_norm(x[0], x[1], x[2], {.epsilon = 0.01});
                                                            })});
  // All outputs: statistics are differentiable, too.
  out.push_back({.name = "LayerNormStatistics", .shapes = normalised, .build = op("LayerNorm", {{"epsilon", 0.1}})});
  out.push_back({.name = "RMSNormStatistics", .shapes = {{3, 4}, {4}}, .build = op("RMSNorm", {{"epsilon", 0.1}})});
  out.push_back({.name = "BatchNormStatistics", .shapes = normalised, .build = op("BatchNorm", {{"epsilon", 0.1}})});
  out.push_back({.name = "GroupNormStatistics",
                 .shapes = {{2, 4, 3}, {4}, {4}},
                 .build = op("GroupNorm", {{"epsilon", 0.1}, {"groups", std::int64_t{2}}})});
  out.push_back({.name = "Dropout",
                 .shapes = {{4, 5}},
                 .build = of([](auto& x) { return square(dropout(x[0], 0.4)); }),
                 .eager = GradientCase::Eager::draws});
  return out;
}

}  // namespace troupe::testing
