#include "troupe/graph/training/classifier.hpp"

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/losses.hpp>

namespace troupe {
namespace {

// Bytes as floats from 0 to 1.
Output as_floats(Output x) {
  if (x.dtype() != DType::u8) return x;
  const Output floats = cast(x, DType::f32);
  return div(floats, scalar_like(floats, 255));
}

ProgramOutputs classify(ProgramContext& c, const Sequential& layers, const Optimizer& optimizer) {
  LayerContext context = c.layers();
  const Output logits = layers.apply(context, as_floats(c["images"]));
  if (is_softmax(logits))
    invalid_argument(
        "the loss takes logits, but the model ends in '{}': remove the softmax of the last layer (predictions are "
        "probabilities anyway)",
        logits.source().name);
  const Output labels = c["labels"];
  ProgramOutputs out;
  {
    const auto scope = c.graph.scope("loss");
    const Output each = losses::per_example(Loss::sparse_softmax_cross_entropy, logits, labels);
    out.objectives.push_back({.name = "loss", .loss = mean(each, {}, {.name = "mean"}), .optimizer = optimizer});
  }
  const auto scope = c.graph.scope("accuracy");
  const Output right = reshape(metrics::correct_count(logits, labels, "correct"), Shape{1});
  const Output all = reshape(element_count(labels, "examples"), Shape{1});
  out.figures.push_back({.name = "accuracy", .sums = concat({right, all}, 0)});
  out.predictions["probabilities"] = softmax(logits, {.name = "predictions"});
  return out;
}

}  // namespace

Program classifier(Sequential layers, Optimizer optimizer) {
  return [layers = std::move(layers), optimizer = std::move(optimizer)](ProgramContext& context) {
    return classify(context, layers, optimizer);
  };
}

BatchSchema classifier_schema(const Shape& example, DType dtype) {
  return {{.name = "images", .dtype = dtype, .shape = example}, {.name = "labels", .dtype = DType::i32, .shape = {}}};
}

}  // namespace troupe
