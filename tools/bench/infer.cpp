// Predictions of models, compared with onnxruntime on the exported model.
#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/graph/layers/resnet.hpp>

namespace troupe::bench {
namespace {

Sequential mlp() { return Sequential({layers::dense(128, Activation::relu), layers::dense(10, Activation::softmax)}); }

// MobileNet's blocks (Howard et al. 2017): a filter for each channel, then one point's products of all channels.
Sequential depthwise_net() {
  Sequential out;
  const auto normalised = [&](LayerPtr convolution) {
    out.add(std::move(convolution));
    out.add(layers::batch_norm(Activation::relu));
  };
  normalised(layers::conv2d(32, 3, Activation::none, {.strides = {2, 2}, .padding = Padding::same, .use_bias = false}));
  const std::pair<std::int64_t, std::int64_t> blocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2},  {256, 1},
                                                          {512, 2}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  for (const auto& [channels, stride] : blocks) {
    normalised(layers::depthwise_conv2d({3, 3}, 1, Activation::none,
                                        {.strides = {stride, stride}, .padding = Padding::same, .use_bias = false}));
    normalised(layers::conv2d(channels, 1, Activation::none, {.use_bias = false}));
  }
  out.add(layers::global_average_pool());
  out.add(layers::dense(1000));
  return out;
}

// As a sentence encoder of 22 million parameters.
Sequential encoder() {
  Sequential out;
  for (int i = 0; i < 6; ++i) out.add(layers::transformer_encoder(12, 1536, {.activation = Activation::gelu}));
  return out;
}

Sequential two_lstms() { return Sequential({layers::lstm(256, {.return_sequences = true}), layers::lstm(256)}); }

struct Model {
  const char* name;
  const char* measures;
  Sequential (*make)();
  Shape x;  // of one example
};

// With int8, of products of bytes on both sides: rounded sums may differ by a step, which later layers spread.
constexpr double kTolerance = 1e-3, kByteTolerance = 0.1;

Case infer_case(const Model& model, std::int64_t batch, int threads, double target, bool int8 = false) {
  return {.bench = "infer",
          .name = fmt::format("{}{}-{}{}", model.name, int8 ? "-int8" : "", batch,
                              threads == 1 ? "" : fmt::format("-threads{}", threads)),
          .unit = "us",
          .more_is_better = false,
          .measures = fmt::format("{}{}, a batch of {}, {} thread{}", model.measures, int8 ? ", in 8 bits" : "", batch,
                                  threads, threads == 1 ? "" : "s"),
          .peer = "onnxruntime from Python, the exported model, as many threads",
          .ratio_target = target,
          .prepare = [=](const Settings& settings) -> Contest {
            std::vector<std::int64_t> dims{batch};
            for (const std::int64_t size : model.x.dims()) dims.push_back(size);
            const auto step = std::make_shared<ComparedStep>(
                ComparedStep::Inputs{{"x", random_tensor(Shape(dims), 1)}},
                [&](const Outputs& in) -> ComparedStep::Results {
                  VariablePool pool;
                  LayerContext context{.graph = *in[0].graph, .variables = pool};
                  return {{"y", model.make().apply(context, in[0])}};
                },
                threads);
            if (int8) {
              step->quantize_for_inference();
            } else {
              step->write_onnx();
              step->freeze_for_inference();
            }
            return compare_with(step, {"onnx"}, settings, kMicro, int8 ? kByteTolerance : kTolerance);
          }};
}

}  // namespace

void add_infer_cases(std::vector<Case>& cases) {
  const Model small{"mlp", "784 to 128 and 10 units", mlp, {784}};
  cases.push_back(infer_case(small, 1, 1, 1.6));
  cases.push_back(infer_case(small, 128, 1, 1));
  const Model resnet{"resnet50", "ResNet-50 of images 224 x 224", [] { return resnet50(); }, {224, 224, 3}};
  const Model mobile{
      "mobilenet", "depthwise and pointwise convolutions of images 224 x 224", depthwise_net, {224, 224, 3}};
  const Model sentence{"encoder", "a transformer of 6 layers, 384 features, 12 heads, 128 tokens", encoder, {128, 384}};
  const Model recurrent{"lstm", "two LSTMs of 256 units, 64 steps", two_lstms, {64, 256}};
  for (const int threads : {1, 2})
    for (const std::int64_t batch : {1, 8}) cases.push_back(infer_case(resnet, batch, threads, 0.95));
  cases.push_back(infer_case(mobile, 1, 1, 0.95));
  for (const std::int64_t batch : {1, 8}) cases.push_back(infer_case(sentence, batch, 1, 0.95));
  cases.push_back(infer_case(recurrent, 1, 1, 1));
  for (const std::int64_t batch : {1, 8}) cases.push_back(infer_case(resnet, batch, 1, 0.9, true));
  for (const std::int64_t batch : {1, 8}) cases.push_back(infer_case(sentence, batch, 1, 0.9, true));
}

}  // namespace troupe::bench
