// GPU kernels, compared with its libraries called directly. All data stays on the GPU, except in cases of copies.
#include "tools/bench/cases.hpp"
#include "tools/bench/gpu_library.hpp"
#include "tools/bench/gpu_ranks.hpp"
#include "tools/bench/gpu_resnet.hpp"
#include "tools/bench/gpu_step.hpp"
#include "tools/bench/mnist_contest.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

Measure per_call(const Settings& settings, int times, std::shared_ptr<GpuCall> call) {
  return [=, slice = settings.slice_seconds()] {
    return seconds_per_call(slice, [&] { call->run(times); }) / times * kMicro;
  };
}

Measure per_node(const Settings& settings, std::shared_ptr<GpuStep> step) {
  return [=, slice = settings.slice_seconds()] { return step->seconds_per_node(slice) * kMicro; };
}

int times_of(const Settings& settings, int usual) {
  return settings.nodes > 0 ? settings.nodes : settings.quick ? 2 : usual;
}

// --- Matrix products ---

Contest product(DType dtype, bool tf32, std::int64_t n, const Settings& settings) {
  const int times = times_of(settings, n >= 8192 ? 10 : 40);
  if (settings.quick) n = 256;
  auto step = std::make_shared<GpuStep>(
      std::vector<GpuInput>{{dtype, {n, n}}, {dtype, {n, n}}}, times,
      [](const auto& in) { return std::vector{matmul(in[0], in[1])}; }, GpuStep::Options{.tf32 = tf32});
  return {.troupe = per_node(settings, step),
          .peers = {{"cuBLASLt", per_call(settings, times, gpu_peers()->product(dtype, tf32, n, n, n))}}};
}

void add_products(std::vector<Case>& cases) {
  for (const auto& [name, dtype, tf32] :
       {std::tuple{"bf16", DType::bf16, false}, {"tf32", DType::f32, true}, {"f32", DType::f32, false}})
    for (const std::int64_t n : {4096, 8192})
      cases.push_back(
          {.bench = "matmul",
           .name = fmt::format("{}-{}", name, n),
           .unit = "us/node",
           .measures = fmt::format("{0}x{0}x{0} products of variables on a GPU, many nodes in one step, per node", n),
           .peer = "cuBLASLt called directly: its heuristic's first algorithm, the same number of calls on one stream",
           .ratio_target = 0.97,
           .prepare = [dtype = dtype, tf32 = tf32, n](const Settings& s) { return product(dtype, tf32, n, s); }});
}

// --- Convolutions of ResNet-50 ---

struct Layer {
  std::int64_t size, kernel, in, out, stride;
};

Contest convolution(ConvDirection direction, const Layer& layer, const Settings& settings) {
  const int times = times_of(settings, 20);
  const std::int64_t batch = settings.quick ? 2 : 128;
  const Shape x{batch, layer.size, layer.size, layer.in}, filter{layer.kernel, layer.kernel, layer.in, layer.out};
  const ConvGeometry g = same_convolution(x, filter, layer.stride);
  const Attributes attributes{{"strides", Integers{layer.stride, layer.stride}}, {"padding", std::string("SAME")}};
  auto step = std::make_shared<GpuStep>(
      std::vector<GpuInput>{{DType::bf16, x}, {DType::bf16, filter}, {DType::bf16, g.result_shape()}}, times,
      [&](const auto& in) {
        if (direction == ConvDirection::forward) return std::vector{add_op("Conv", {in[0], in[1]}, attributes)};
        return std::vector{add_op(
            direction == ConvDirection::backward_input ? "ConvBackpropInput" : "ConvBackpropFilter", in, attributes)};
      },
      GpuStep::Options{});
  return {.troupe = per_node(settings, step),
          .peers = {{"cuDNN, its best plan",
                     per_call(settings, times, gpu_peers()->convolution(direction, DType::bf16, g))}}};
}

void add_gpu_convolutions(std::vector<Case>& cases) {
  for (const Layer& layer :
       {Layer{224, 7, 3, 64, 2}, Layer{56, 1, 64, 256, 1}, Layer{56, 3, 64, 64, 1}, Layer{56, 3, 128, 128, 2},
        Layer{28, 3, 128, 128, 1}, Layer{14, 3, 256, 256, 1}, Layer{14, 1, 1024, 256, 1}, Layer{7, 3, 512, 512, 1}})
    for (const auto& [direction, text] : {std::pair{ConvDirection::forward, "forward"},
                                          {ConvDirection::backward_input, "backward-input"},
                                          {ConvDirection::backward_filter, "backward-filter"}})
      cases.push_back(
          {.bench = "conv2d",
           .name = fmt::format("{}-{}x{}-{}-{}{}", text, layer.size, layer.kernel, layer.in, layer.out,
                               layer.stride > 1 ? "-s2" : ""),
           .unit = "us/node",
           .measures = fmt::format("128 images {0}x{0}x{1}, bf16, filters {2}x{2} to {3} channels, stride {4}, many "
                                   "nodes in one step, per node",
                                   layer.size, layer.in, layer.kernel, layer.out, layer.stride),
           .peer = "cuDNN called directly, in its own filter layout, with its fastest measured plan",
           .ratio_target = 0.95,
           .prepare = [direction = direction, layer](const Settings& s) { return convolution(direction, layer, s); }});
}

// --- Memory-bound kernels ---

// `bytes`: read, and the same number written.
Contest beside_copy(const std::vector<GpuInput>& inputs, const GpuStep::Make& make, bool optimize, std::size_t bytes,
                    const Settings& settings) {
  const int times = times_of(settings, 4);
  auto step = std::make_shared<GpuStep>(inputs, times, make, GpuStep::Options{.optimize = optimize});
  return {.troupe = per_node(settings, step),
          .peers = {{"device copy", per_call(settings, times, gpu_peers()->device_copy(bytes))}}};
}

Contest elementwise_chain(const Settings& settings) {
  const std::int64_t n = settings.quick ? 1 << 20 : 1 << 28;
  // Each chain differs, or they would be shared.
  int number = 0;
  return beside_copy(
      {{DType::f32, {n}}},
      [&number](const auto& in) {
        Graph& graph = *in[0].graph;
        ++number;
        const Output scaled = mul(in[0], constant(graph, 1.0f + 0.25f * static_cast<float>(number)));
        return std::vector{relu(sub(square(add(scaled, constant(graph, 0.5f))), constant(graph, 0.75f)))};
      },
      true, static_cast<std::size_t>(n) * sizeof(float), settings);
}

Contest cross_entropy(const Settings& settings) {
  const std::int64_t rows = settings.quick ? 256 : 1 << 18, classes = 1024;
  return beside_copy(
      {{DType::f32, {rows, classes}}, {DType::i32, {rows}, classes}},
      [](const auto& in) {
        return std::vector{add_op("SparseSoftmaxCrossEntropy", {in[0], in[1]})};
      },
      false, static_cast<std::size_t>(rows * classes) * sizeof(float), settings);
}

void add_elementwise(std::vector<Case>& cases) {
  const auto add = [&](const char* name, const char* measures, Contest (*prepare)(const Settings&)) {
    cases.push_back({.bench = "elementwise",
                     .name = name,
                     .unit = "us/node",
                     .measures = measures,
                     .peer = "a copy within the GPU that reads and writes the same number of bytes",
                     .ratio_target = 0.85,
                     .prepare = prepare});
  };
  add("chain-1GiB", "five elementwise ops on 1 GiB of f32, fused; four of them in one step, per chain",
      elementwise_chain);
  add("softmax-cross-entropy-1GiB", "loss and gradient of 2^18 x 1024 logits (f32), four of them in one step, per node",
      cross_entropy);
}

// --- Launching ---

Contest gpu_null_chain(const Settings& settings) {
  constexpr int kNodes = 1000;
  auto step = std::make_shared<GpuStep>(
      std::vector<GpuInput>{{DType::f32, {32}}}, 1,
      [](const auto& in) {
        Output x = in[0];
        for (int i = 0; i < kNodes; ++i) x = neg(x);
        return std::vector{x};
      },
      GpuStep::Options{});
  step->check_recorded();
  return {.troupe = per_node(settings, step),
          .peers = {{"a CUDA graph", per_call(settings, 1, gpu_peers()->chain(kNodes))}}};
}

// --- Copies ---

std::vector<Output> nothing(const std::vector<Output>&) { return {}; }

// `n` numbers in pinned memory.
Tensor pinned(std::int64_t n) {
  const GpuStep source({{DType::f32, {n}}}, 1, [](const auto& in) { return in; }, {.fetch = true});
  return source.results()[0];
}

Contest to_gpu(const Settings& settings) {
  const std::int64_t n = settings.quick ? 1 << 16 : 1 << 26;
  auto step = std::make_shared<GpuStep>(std::vector<GpuInput>{}, 1, nothing, GpuStep::Options{.fed = pinned(n)});
  return {
      .troupe = per_node(settings, step),
      .peers = {{"cudaMemcpyAsync",
                 per_call(settings, 1, gpu_peers()->host_copy(static_cast<std::size_t>(n) * sizeof(float), true))}}};
}

Contest from_gpu(const Settings& settings) {
  const std::int64_t n = settings.quick ? 1 << 16 : 1 << 26;
  auto step = std::make_shared<GpuStep>(
      std::vector<GpuInput>{{DType::f32, {n}}}, 1, [](const auto& in) { return in; }, GpuStep::Options{.fetch = true});
  return {
      .troupe = per_node(settings, step),
      .peers = {{"cudaMemcpyAsync",
                 per_call(settings, 1, gpu_peers()->host_copy(static_cast<std::size_t>(n) * sizeof(float), false))}}};
}

// Products alone, and overlapped with copies that take most of their time: 20 products of about 1.4 ms, and 1 GiB of
// about 20 ms.
Contest overlapped(const Settings& settings) {
  const int times = times_of(settings, 20);
  const std::int64_t n = settings.quick ? 256 : 8192, fed = settings.quick ? 1 << 16 : 1 << 28;
  const auto products = [&](Tensor beside) {
    return per_node(settings, std::make_shared<GpuStep>(
                                  std::vector<GpuInput>{{DType::bf16, {n, n}}, {DType::bf16, {n, n}}}, times,
                                  [](const auto& in) { return std::vector{matmul(in[0], in[1])}; },
                                  GpuStep::Options{.fed = std::move(beside), .in_flight = 2}));
  };
  return {.troupe = products(pinned(fed)), .peers = {{"the same without copies", products(Tensor())}}};
}

// --- Training ---

void add_training(std::vector<Case>& cases) {
  for (const char* model : {"mlp", "cnn"}) {
    const Training training{.model = model, .batch = 128, .images = 12800, .epochs = 4, .rounds = 1};
    cases.push_back({.bench = "mnist",
                     .name = fmt::format("{}-{}", model, training.batch),
                     .unit = "steps/s",
                     .more_is_better = true,
                     .measures = fmt::format("training {}, batches of {}, Adam, {} built-in digits in host "
                                             "memory, TF32: shuffling, gathering, copy, "
                                             "step and running figures",
                                             model, training.batch, training.images),
                     .peer = "PyTorch, eager and compiled with CUDA graphs, whichever is faster; all its images are on "
                             "the GPU, as floats",
                     .ratio_target = 2,
                     .prepare = [training](const Settings& s) {
                       return mnist_contest(training, {.gpus = {.count = 1, .tf32 = true}},
                                            {{"torch_gpu.py", {"eager"}}, {"torch_gpu.py", {"compiled"}}}, s);
                     }});
  }
}

Contest resnet(const Settings& settings) {
  const Training training{.model = "resnet50", .batch = settings.quick ? 2 : 128};
  auto steps = std::make_shared<GpuResNet>(training.batch, settings.quick ? 64 : 224);
  Contest contest{.troupe = [=, slice = 20 * settings.slice_seconds()] { return steps->steps_per_second(slice); },
                  .peers = {},
                  .rounds = 1};
  for (const char* mode : {"eager", "compiled"})
    if (auto peer = script_peer({"torch_gpu.py", {mode}}, training, "-", settings))
      contest.peers.push_back(std::move(*peer));
  return contest;
}

// --- All-reduce ---

Contest all_reduce(std::size_t bytes, bool deterministic, const Settings& settings) {
  constexpr int kGpus = 2;
  const int times = times_of(settings, 20);
  if (settings.quick) bytes = std::min<std::size_t>(bytes, 1 << 20);
  auto ranks = std::make_shared<GpuRanks>(kGpus, static_cast<std::int64_t>(bytes / sizeof(float)), deterministic);
  return {.troupe =
              [=, slice = settings.slice_seconds()] {
                return seconds_per_call(slice, [&] { ranks->reduce(times); }) / times * kMicro;
              },
          .peers = {{"ncclAllReduce", per_call(settings, times, gpu_peers()->all_reduce(kGpus, bytes))}}};
}

void add_all_reduces(std::vector<Case>& cases) {
  for (const auto& [name, bytes, deterministic] : {std::tuple{"gpus-4KiB", std::size_t{4} << 10, true},
                                                   {"gpus-64MiB", std::size_t{64} << 20, true},
                                                   {"gpus-64MiB-any-order", std::size_t{64} << 20, false}})
    cases.push_back({.bench = "allreduce",
                     .name = name,
                     .unit = "us",
                     .measures = fmt::format("all-reduce sum of one tensor between two GPUs, {}; 20 in a row, each",
                                             deterministic ? "with the ring's bits" : "in any order"),
                     .peer = "ncclAllReduce called directly, the same number in a row",
                     .gpus = 2,
                     .prepare = [bytes = bytes, deterministic = deterministic](const Settings& s) {
                       return all_reduce(bytes, deterministic, s);
                     }});
}

}  // namespace

std::vector<Case> gpu_cases() {
  std::vector<Case> cases;
  cases.push_back({.bench = "null-ops",
                   .name = "chain",
                   .unit = "us/step",
                   .measures = "a step of 1,000 tiny kernels on a GPU, one after the other",
                   .peer = "the same number of tiny kernels in a handwritten CUDA graph",
                   .ratio_target = 0.8,
                   .prepare = gpu_null_chain});
  add_products(cases);
  add_gpu_convolutions(cases);
  add_elementwise(cases);
  cases.push_back({.bench = "copy",
                   .name = "to-gpu-256MiB",
                   .unit = "us",
                   .measures = "a step that takes a fed tensor of 256 MiB, in pinned memory, to a GPU",
                   .peer = "cudaMemcpyAsync from pinned memory",
                   .ratio_target = 0.95,
                   .prepare = to_gpu});
  cases.push_back({.bench = "copy",
                   .name = "from-gpu-256MiB",
                   .unit = "us",
                   .measures = "a step that fetches 256 MiB from a GPU",
                   .peer = "cudaMemcpyAsync to pinned memory",
                   .ratio_target = 0.95,
                   .prepare = from_gpu});
  cases.push_back({.bench = "copy",
                   .name = "overlapped-1GiB",
                   .unit = "us/node",
                   .measures =
                       "8192x8192x8192 products in bf16, 20 in a step that is also fed 1 GiB from pinned memory, "
                       "two steps at a time, per product",
                   .peer = "the same steps without the copy",
                   .ratio_target = 0.9,
                   .prepare = overlapped});
  add_training(cases);
  cases.push_back({.bench = "resnet50",
                   .name = "bf16-128",
                   .unit = "steps/s",
                   .more_is_better = true,
                   .measures = "training ResNet-50, batches of 128 images 224x224 of f32 fed from pinned "
                               "memory, layers in bf16, SGD with momentum, two steps at a time",
                   .peer = "PyTorch, eager and compiled with CUDA graphs, whichever is faster; autocast to bf16, "
                           "channels last, its images are on the GPU",
                   .ratio_target = 1.0,
                   .prepare = resnet});
  add_all_reduces(cases);
  for (Case& c : cases) c.gpus = std::max(c.gpus, 1);
  return cases;
}

}  // namespace troupe::bench
