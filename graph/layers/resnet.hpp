// Residual networks for images (He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition", 2016), in the
// variant v1.5: where a stage halves the image, the stride is in the 3x3 convolution of its first block, not in the 1x1
// before it.
//
//   Sequential model = resnet50();
//   model.set_compute(DType::bf16);
//   TrainingGraph step = build_training_graph(model, Shape{224, 224, 3}, Loss::sparse_softmax_cross_entropy,
//                                             optimizers::Momentum{.learning_rate = 0.1}, {.batch = 128});
//
// Input [n, height, width, channels]; output: logits [n, classes].
#pragma once

#include <vector>

#include <troupe/graph/layers/layers.hpp>

namespace troupe {

struct ResNetOptions {
  std::vector<int> blocks = {3, 4, 6, 3};  // bottleneck blocks of each stage; each stage but the first halves the image
  std::int64_t width = 64;                 // channels after the first convolution; blocks of stage s output 4 width 2^s
  std::int64_t classes = 1000;
};

// Convolutions are initialized as in He et al. 2015, and the last normalisation of each block with a scale of 0, so
// that the block starts as its shortcut (Goyal et al., "Accurate, Large Minibatch SGD", 2017). Throws invalid_argument
// for invalid options.
Sequential resnet(const ResNetOptions& options);

// 25,557,032 parameters for 1000 classes.
inline Sequential resnet50(std::int64_t classes = 1000) { return resnet({.classes = classes}); }

}  // namespace troupe
