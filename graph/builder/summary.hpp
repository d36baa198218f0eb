// Summaries: tensors of a training graph that go to TensorBoard, under a name as of TensorFlow's tf.summary. Call these
// in a layer or a program:
//
//   Output apply(LayerContext& context, Output x) const override {
//     const Output y = relu(x);
//     summary::histogram("activations", y);
//     summary::scalar("dead", mean(cast(equal(y, scalar_like(y, 0)), DType::f32)));
//     return y;
//   }
//
// With TrainingOptions::tensorboard the task that writes the curves computes them in the first of every
// `tensorboard_every` steps that it computes: of its first slot and micro-batch, before the update. Otherwise they are
// never computed. The tag is the name below the graph's scope, that of the layer ("dense_1/activations"); a tag that is
// taken gets a number ("dead_1"). In a loop of one's own: summary::Writer (actors/tensorboard/summary_writer.hpp).
#pragma once

#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

enum class SummaryKind : std::uint8_t { scalar, histogram, image, text };

// A summary of a graph.
struct SummaryOutput {
  SummaryKind kind = SummaryKind::scalar;
  std::string tag{};
  int max_outputs = 0;  // of images
  Output value{};
};

// Those that nodes from number `first` on make, in their order, with tags that differ.
std::vector<SummaryOutput> summaries_of(Graph& graph, int first = 0);

namespace summary {

// All throw invalid_argument for another dtype or shape, and inside of functions of the graph (bodies of loops, cases),
// where only their results are seen.
// `value`: a number.
void scalar(const std::string& name, Output value);
// `values`: numbers of any shape; those that are not finite do not count.
void histogram(const std::string& name, Output values);
// `images`: [n, height, width, channels], u8 or floats in [0, 1]; 1 channel is grey, 2 grey and alpha, 3 RGB, 4 RGB and
// alpha. The first `max_outputs` of a batch are written.
void image(const std::string& name, Output images, int max_outputs = 3);
// `text`: a string; Markdown.
void text(const std::string& name, Output text);

}  // namespace summary
}  // namespace troupe
