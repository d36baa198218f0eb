// The training graph of a classifier, with names for its parts.
#pragma once

#include "tests/graph/training/classifier.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/training/towers.hpp>

namespace troupe::testing {

struct ClassifierGraph : TrainingGraph {
  Outputs images, labels;  // by slot
  Output train;
  Output loss_sum, correct;  // f64 scalars, over all slots
  Output eval_images, eval_labels, eval_loss_sum, eval_correct;
  Output probabilities;
};

inline Output figure(Output flat, std::int64_t index, Name name) {
  return reshape(slice(flat, {index}, {1}), Shape{}, std::move(name));
}

inline ClassifierGraph classifier_graph(const Sequential& layers, const Shape& example, const Optimizer& optimizer,
                                        const TowerOptions& options = {}) {
  ClassifierGraph t{build_training_graph(classifier(layers, optimizer), classifier_schema(example), options)};
  for (const Outputs& batch : t.batches) t.images.push_back(batch[0]), t.labels.push_back(batch[1]);
  const TrainingPhase& phase = t.phases.at(0);
  const Output figures = phase.figures.size() == 1 ? phase.figures[0] : add_n(phase.figures, "all_figures");
  t.train = phase.train;
  t.loss_sum = figure(figures, 0, "loss_sum");
  t.correct = figure(figures, 2, "correct");
  t.eval_images = t.eval_batch[0];
  t.eval_labels = t.eval_batch[1];
  t.eval_loss_sum = figure(t.eval_figures, 0, "eval_loss_sum");
  t.eval_correct = figure(t.eval_figures, 2, "eval_correct");
  t.probabilities = softmax(t.predictions.begin()->second, {.name = "predictions"});
  return t;
}

}  // namespace troupe::testing
