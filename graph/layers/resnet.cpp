#include "troupe/graph/layers/resnet.hpp"

#include <utility>

namespace troupe {
namespace {

LayerPtr convolution(std::int64_t channels, std::int64_t size, std::int64_t stride) {
  return layers::conv2d(channels, size, Activation::none,
                        {.strides = {stride, stride},
                         .padding = Padding::same,
                         .use_bias = false,
                         .kernel = {.initializer = initializers::he_normal()}});
}

LayerPtr bottleneck(std::int64_t width, std::int64_t stride, bool projects) {
  Sequential body({convolution(width, 1, 1), layers::batch_norm(Activation::relu), convolution(width, 3, stride),
                   layers::batch_norm(Activation::relu), convolution(4 * width, 1, 1),
                   layers::batch_norm(Activation::none, {.scale = {.initializer = initializers::zeros()}})});
  Sequential shortcut;
  if (projects) shortcut = Sequential({convolution(4 * width, 1, stride), layers::batch_norm()});
  return layers::residual(std::move(body), std::move(shortcut), Activation::relu);
}

}  // namespace

Sequential resnet(const ResNetOptions& options) {
  if (options.blocks.empty() || options.blocks.size() > 16)
    invalid_argument("resnet: the number of stages must be 1 to 16, not {}", options.blocks.size());
  for (const int blocks : options.blocks)
    if (blocks < 1) invalid_argument("resnet: a stage must have at least one block, not {}", blocks);
  Sequential model(
      {convolution(options.width, 7, 2), layers::batch_norm(Activation::relu), layers::max_pool(3, 2, Padding::same)});
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage)
    for (int block = 0; block < options.blocks[stage]; ++block)
      model.add(bottleneck(options.width << stage, stage > 0 && block == 0 ? 2 : 1, block == 0));
  model.add(layers::global_average_pool());
  model.add(layers::dense(options.classes));
  return model;
}

}  // namespace troupe
