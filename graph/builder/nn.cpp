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

}  // namespace

std::string to_string(Padding padding) { return padding == Padding::same ? "SAME" : "VALID"; }

Output conv2d(Output x, Output filter, Conv2DOptions options) {
  return add_op("Conv2D", {x, filter},
                {{"strides", std::move(options.strides)}, {"padding", to_string(options.padding)}},
                std::move(options.name));
}
Output max_pool(Output x, PoolOptions options) { return pool("MaxPool", x, std::move(options)); }
Output avg_pool(Output x, PoolOptions options) { return pool("AvgPool", x, std::move(options)); }
DropoutOutputs dropout(Output x, Output rate, DropoutOptions options) {
  const Outputs out = add_outputs("Dropout", {x, rate}, {{"seed", options.seed}}, std::move(options.name));
  return {out[0], out[1]};
}
Output dropout(Output x, double rate, DropoutOptions options) {
  if (!x.valid()) invalid_argument("dropout: x is not a tensor");
  return dropout(x, constant(*x.graph, rate), std::move(options)).y;
}

}  // namespace troupe
