#include "graph/nn_ops.hpp"

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

Output softmax(Output x, Name name) { return add_op("Softmax", {x}, {}, std::move(name)); }
Output log_softmax(Output x, Name name) { return add_op("LogSoftmax", {x}, {}, std::move(name)); }
Output sparse_softmax_cross_entropy(Output logits, Output labels, Name name) {
  return add_op("SparseSoftmaxCrossEntropy", {logits, labels}, {}, std::move(name));
}
Output softmax_cross_entropy(Output logits, Output labels, Name name) {
  return add_op("SoftmaxCrossEntropy", {logits, labels}, {}, std::move(name));
}
Output sigmoid_cross_entropy(Output logits, Output labels, Name name) {
  return add_op("SigmoidCrossEntropy", {logits, labels}, {}, std::move(name));
}
Output conv2d(Output x, Output filter, Conv2DOptions options) {
  return add_op("Conv2D", {x, filter},
                {{"strides", std::move(options.strides)}, {"padding", to_string(options.padding)}},
                std::move(options.name));
}
Output max_pool(Output x, PoolOptions options) { return pool("MaxPool", x, std::move(options)); }
Output avg_pool(Output x, PoolOptions options) { return pool("AvgPool", x, std::move(options)); }
Output dropout(Output x, double rate, DropoutOptions options) {
  return add_op("Dropout", {x}, {{"rate", rate}, {"seed", options.seed}}, std::move(options.name));
}

}  // namespace troupe
