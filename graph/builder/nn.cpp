#include "troupe/graph/builder/nn.hpp"

namespace troupe {
namespace {

Output pool(const char* op, Output x, PoolOptions options) {
  return add_op(op, {x},
                {{"ksize", std::move(options.ksize)},
                 {"strides", std::move(options.strides)},
                 {"padding", to_string(options.padding)}},
                std::move(options.name));
}

Attributes norm_attributes(const BatchNormOptions& options) {
  return {{"epsilon", options.epsilon}, {"activation", std::string(options.relu ? "relu" : "none")}};
}

}  // namespace

std::string to_string(Padding padding) { return padding == Padding::same ? "SAME" : "VALID"; }

Output conv2d(Output x, Output filter, Conv2DOptions options) {
  return add_op("Conv2D", {x, filter},
                {{"strides", std::move(options.strides)}, {"padding", to_string(options.padding)}},
                std::move(options.name));
}
Output max_pool(Output x, PoolOptions options) { return pool("MaxPool", x, std::move(options)); }
Output avg_pool(Output x, PoolOptions options) { return pool("AvgPool", x, std::move(options)); }
BatchNormOutputs batch_norm(Output x, Output scale, Output offset, BatchNormOptions options) {
  const Outputs out = add_outputs("BatchNorm", {x, scale, offset}, norm_attributes(options), std::move(options.name));
  return {out[0], out[1], out[2]};
}
Output batch_norm_inference(Output x, Output scale, Output offset, Output mean, Output variance,
                            BatchNormOptions options) {
  return add_op("BatchNormInference", {x, scale, offset, mean, variance}, norm_attributes(options),
                std::move(options.name));
}
Output layer_norm(Output x, Output scale, Output offset, LayerNormOptions options) {
  return add_op("LayerNorm", {x, scale, offset}, {{"epsilon", options.epsilon}}, std::move(options.name));
}
DropoutOutputs dropout(Output x, Output rate, DropoutOptions options) {
  const Outputs out = add_outputs("Dropout", {x, rate}, {{"seed", options.seed}}, std::move(options.name));
  return {out[0], out[1]};
}
Output dropout(Output x, double rate, DropoutOptions options) {
  if (!x.valid()) invalid_argument("dropout: x is not a tensor");
  return dropout(x, constant(*x.graph, rate), std::move(options)).y;
}

}  // namespace troupe
