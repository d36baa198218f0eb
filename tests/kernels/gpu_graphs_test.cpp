// Can a GPU run all of a training step? Asked of the plug-in itself, which needs no GPU to say what kernels it has.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "tests/graph/training/classifier_graph.hpp"
#include "tests/paths.hpp"
#include <troupe/devices/plugin.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/layers/resnet.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/mixed_precision.hpp>
#include <troupe/graph/passes/optimize.hpp>
#include <troupe/graph/placement/placement.hpp>

namespace troupe {
namespace {

const std::set<std::string>& gpu_kernels() {
  static const std::set<std::string> kernels = [] {
    const PluginResult opened = open_cuda_plugin(testing::built_library("libtroupe_cuda.so"));
    if (!opened.plugin) throw Error(Code::not_found, opened.why_not);
    KernelRegistry registry;
    opened.plugin->register_kernels(registry);
    const std::vector<std::string> list = registry.list("GPU");
    return std::set<std::string>(list.begin(), list.end());
  }();
  return kernels;
}

bool on_gpu(std::string_view op, DType dtype) {
  return gpu_kernels().contains(std::string(op)) || gpu_kernels().contains(fmt::format("{}:{}", op, name(dtype)));
}

// "Op:dtype of 'node'" of what a GPU has no kernel for, in branches too.
void collect_missing(const Graph& graph, std::set<std::string>& missing) {
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (const std::string kernel = kernel_name(node); !kernel.empty() && !on_gpu(node.op->name, node.kernel_type()))
      missing.insert(fmt::format("{} of '{}'", kernel, node.name));
  }
  for (const auto& [name, function] : graph.functions()) collect_missing(*function.body, missing);
}

struct Network {
  std::string name;
  Sequential model;
  Shape input;
};
std::vector<Network> networks() {
  using namespace layers;
  return {{"mlp", Sequential({flatten(), dense(128, Activation::relu), dense(10)}), Shape{28, 28, 1}},
          {"cnn",
           Sequential({conv2d(32, 3, Activation::relu), max_pool(2), conv2d(64, 3, Activation::relu), max_pool(2),
                       flatten(), dense(128, Activation::relu), dropout(0.5), dense(10)}),
           Shape{28, 28, 1}},
          {"layer_norm", Sequential({flatten(), dense(64), layer_norm(), activation(Activation::tanh), dense(10)}),
           Shape{28, 28, 1}},
          {"resnet50", resnet50(), Shape{224, 224, 3}}};
}

enum class Precision { f32, layers_bf16, layers_f16, pass_bf16, pass_f16 };
const char* name(Precision precision) {
  constexpr const char* kNames[] = {"f32", "layers of bf16", "layers of f16", "pass to bf16", "pass to f16"};
  return kNames[static_cast<int>(precision)];
}

struct Call {
  std::string name;
  std::unique_ptr<Graph> graph;
};

// The graphs that a session runs: one step of training, evaluation, and the initial values; as they are, and as the
// passes make them.
std::vector<Call> calls(const Network& network, Precision precision, const Optimizer& optimizer) {
  Sequential model = network.model;
  const bool f16 = precision == Precision::layers_f16 || precision == Precision::pass_f16;
  if (precision == Precision::layers_bf16 || precision == Precision::layers_f16)
    model.set_compute(f16 ? DType::f16 : DType::bf16);
  TowerOptions towers{.batch = 128};
  if (f16) towers.loss_scaling = LossScaling{};
  const testing::ClassifierGraph t = testing::classifier_graph(model, network.input, optimizer, towers);
  const std::vector<std::pair<std::string, Signature>> signatures{
      {"training",
       {.feeds = {t.images[0].name(), t.labels[0].name()},
        .fetches = {t.loss_sum.name(), t.correct.name()},
        .targets = {t.train.name()}}},
      {"evaluation",
       {.feeds = {t.eval_images.name(), t.eval_labels.name()},
        .fetches = {t.eval_loss_sum.name(), t.probabilities.name()},
        .targets = {}}},
      {"initial values", {.feeds = {}, .fetches = {}, .targets = {t.initializer.name()}}}};
  std::vector<Call> out;
  for (const auto& [call, signature] : signatures)
    for (const bool optimized : {false, true}) {
      auto graph = make_callable_graph(*t.graph, signature);
      if (precision == Precision::pass_bf16 || precision == Precision::pass_f16)
        graph = mixed_precision(*graph, {.precision = f16 ? DType::f16 : DType::bf16, .supports = on_gpu});
      if (optimized) graph = optimize(std::move(graph), {.has_kernel = on_gpu});
      out.push_back({call + (optimized ? ", optimized" : ""), std::move(graph)});
    }
  return out;
}

TEST(GpuGraphs, AGpuHasAKernelForEveryNodeOfTraining) {
  const std::vector<Optimizer> rules{
      optimizers::Momentum{.learning_rate = schedules::Cosine{.rate = 0.1, .steps = 1000}}, optimizers::Adam{}};
  for (const Network& network : networks())
    for (const Precision precision :
         {Precision::f32, Precision::layers_bf16, Precision::layers_f16, Precision::pass_bf16, Precision::pass_f16})
      for (const Optimizer& optimizer : rules)
        for (const Call& call : calls(network, precision, optimizer)) {
          std::set<std::string> missing;
          collect_missing(*call.graph, missing);
          EXPECT_TRUE(missing.empty()) << network.name << ", " << name(precision) << ", " << troupe::name(optimizer)
                                       << ", " << call.name << ": " << ::testing::PrintToString(missing);
        }
}

// The gradients of a loss with respect to `weights` on a GPU: none of their nodes is missing.
void expect_on_gpu(std::string_view what, Output loss, const Outputs& weights) {
  const Outputs losses{loss};
  for (const Gradient& gradient : gradients(losses, weights)) EXPECT_TRUE(gradient) << what;
  std::set<std::string> missing;
  collect_missing(*loss.graph, missing);
  EXPECT_TRUE(missing.empty()) << what << ": " << ::testing::PrintToString(missing);
}

// A decoder with grouped heads, of words.
void transformer(Graph& g, DType dtype) {
  Outputs weights;
  const auto weight = [&](DType type, Shape shape) {
    weights.push_back(placeholder(g, type, shape));
    return weights.back();
  };
  const Output words = placeholder(g, DType::i64, {2, 16}), labels = placeholder(g, DType::i64, {2, 16});
  const Output table = weight(dtype, {50, 32});
  const Output embedded = gather(table, words);
  const Output scale = weight(DType::f32, {32});
  const Output h = rms_norm(embedded, scale);
  const auto heads = [&](std::int64_t count) {
    const Output projection = weight(dtype, {32, count * 8});
    return transpose(reshape(matmul(h, projection), {2, 16, count, 8}), {0, 2, 1, 3});
  };
  const Output cosines = placeholder(g, dtype, {16, 4}), sines = placeholder(g, dtype, {16, 4});
  const Output queries = heads(4), keys = heads(2), values = heads(2);
  const Output turned = rotary_embedding(queries, cosines, sines);
  const Output turned_keys = rotary_embedding(keys, cosines, sines);
  const Output attended = attention(turned, turned_keys, values, {.causal = true});
  const Output joined = reshape(transpose(attended, {0, 2, 1, 3}), {2, 16, 32});
  const Output sum = embedded + joined;
  const Output gain = weight(DType::f32, {32}), offset = weight(DType::f32, {32});
  const Output normal = layer_norm(sum, gain, offset);
  const Output up = weight(dtype, {32, 64}), down = weight(dtype, {64, 32}), last = weight(dtype, {32, 50});
  const Output wide = gelu(matmul(normal, up));
  const Output dropped = dropout(matmul(wide, down), 0.1);
  const Output logits = matmul(sum + dropped, last);
  expect_on_gpu(name(dtype), mean(sparse_softmax_cross_entropy(logits, labels)), weights);
}

// An image through grouped and dilated convolutions, pools with indices and back.
void segmentation(Graph& g, DType dtype) {
  Outputs weights;
  const auto weight = [&](DType type, Shape shape) {
    weights.push_back(placeholder(g, type, shape));
    return weights.back();
  };
  const Output image = placeholder(g, dtype, {2, 8, 16, 16});
  const Output bordered = pad(image, {0, 0, 1, 1}, {0, 0, 1, 1}, {.mode = PadMode::reflect});
  const Output grouped = weight(dtype, {8, 2, 3, 3});
  const Output h = conv(bordered, grouped, {.groups = 4, .format = DataFormat::channels_first});
  const Output gain = weight(DType::f32, {8}), offset = weight(DType::f32, {8});
  const Output normal = silu(group_norm(h, gain, offset, 2));
  const MaxPoolOutputs pooled = max_pool_with_indices(normal, {.format = DataFormat::channels_first});
  const Output back = max_unpool(pooled.y, pooled.indices, shape_of(normal));
  expect_on_gpu(name(dtype), mean(softplus(back)), weights);
}

TEST(GpuGraphs, AGpuHasAKernelForEveryNodeOfATransformerAndOfASegmentation) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Graph words, images;
    transformer(words, dtype);
    segmentation(images, dtype);
  }
}

// What an output holds, in bytes.
std::int64_t bytes(const Graph& graph, Endpoint e) {
  return graph.shape(e).num_elements() * static_cast<std::int64_t>(size_of(graph.dtype(e)));
}

// Casts of a step of ResNet-50 (batch 128) read and write images, weights, their gradients, and what the last pool
// takes and gives: 0.4 to 0.6 GB, a tenth of what one pass over the data of all normalisations, forward and back, reads
// (5.7 GB); and these work on bf16 itself.
TEST(GpuGraphs, CastsOfResNet50MoveLittle) {
  const Network network{"resnet50", resnet50(), Shape{224, 224, 3}};
  for (const Precision precision : {Precision::layers_bf16, Precision::pass_bf16}) {
    const std::vector<Call> all = calls(network, precision, optimizers::Momentum{});
    const Graph& training = *all[1].graph;
    std::int64_t casts = 0, normalised = 0;
    int normalisations = 0;
    for (int id = 0; id < training.size(); ++id) {
      const Node& node = training.node(id);
      if (node.op->name == "Cast") casts += bytes(training, node.inputs[0]) + bytes(training, {node.id, 0});
      if (node.op->name != "BatchNorm" && node.op->name != "BatchNormGrad") continue;
      EXPECT_EQ(node.kernel_type(), DType::bf16) << name(precision) << ": " << node.name;
      normalised += bytes(training, node.inputs[0]);
      ++normalisations;
    }
    EXPECT_EQ(normalisations, 2 * 53) << name(precision);
    EXPECT_EQ(normalised, std::int64_t{2} * 2 * 128 * 11'113'984) << name(precision);
    EXPECT_LT(casts, normalised / 8) << name(precision);
  }
}

}  // namespace
}  // namespace troupe
