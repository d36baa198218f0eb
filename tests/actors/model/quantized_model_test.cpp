// What quantisation costs a model that has learned something.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/training/classifying.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/session/quantization.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/passes/freeze.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

Sequential digits_net() {
  return Sequential({layers::rescaling(1 / 255.0), layers::conv2d(8, 3, Activation::relu, {.strides = {2, 2}}),
                     layers::conv2d(16, 3, Activation::relu, {.strides = {2, 2}}), layers::flatten(),
                     layers::dense(32, Activation::relu), layers::dense(10)});
}

double accuracy(const Tensor& scores, const Tensor& labels) {
  std::int64_t right = 0;
  const std::int64_t count = scores.shape().dim(0);
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const row = scores.data<float>() + 10 * i;
    right += std::max_element(row, row + 10) - row == labels.data<std::int32_t>()[i];
  }
  return 100.0 * static_cast<double>(right) / static_cast<double>(count);
}

TEST(QuantizedModel, OfDigitsLosesLessThanHalfAPoint) {
  const DataSplits data = draw_digits({.train = 3000, .test = 1000});
  Model model(digits_net(), Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.003}));
  model.fit(data, {.epochs = 2, .batch = 32, .quiet = true});

  Graph graph;
  const Output x = placeholder(graph, DType::u8, Shape{kUnknown, 28, 28, 1}, "x");
  VariablePool pool;
  LayerContext context{.graph = graph, .variables = pool};
  const Output y = digits_net().apply(context, x);
  std::map<std::string, Tensor> values;
  for (const auto& [name, value] : model.parameters()) values[name] = value;
  const auto frozen = freeze(graph, values);
  const Output frozen_y = frozen->output(*frozen->find(y.source().name));

  Task task({.threads = 1});
  const auto batches = [&, left = 3]() mutable -> std::optional<std::map<std::string, Tensor>> {
    if (left-- == 0) return std::nullopt;
    return std::map<std::string, Tensor>{{"x", data.train.images.rows(left * 100, left * 100 + 100).clone()}};
  };
  for (const double percentile : {100.0, 99.99}) {
    const QuantizedModel q = quantize(task, *frozen, {frozen_y}, batches, {.percentile = percentile});
    Session floats(task, *frozen), bytes(task, *q.graph, {.inference = InferencePasses{}});
    const double before = accuracy(floats.run({{frozen->output("x"), data.test.images}}, frozen_y), data.test.labels),
                 after =
                     accuracy(bytes.run({{q.graph->output("x"), data.test.images}}, q.outputs[0]), data.test.labels);
    EXPECT_GT(before, 80);  // it has learned something
    EXPECT_NEAR(after, before, 0.5) << percentile;
    EXPECT_EQ(q.report.layers.size(), 4u);
  }
}

}  // namespace
}  // namespace troupe
