#include "tools/bench/gpu_resnet.hpp"

#include <deque>
#include <future>
#include <random>

#include "tools/bench/harness.hpp"
#include <troupe/graph/layers/resnet.hpp>
#include <troupe/graph/training/network_program.hpp>
#include <troupe/graph/training/towers.hpp>

namespace troupe::bench {
namespace {

constexpr int kClasses = 1000;

}  // namespace

GpuResNet::GpuResNet(int batch, std::int64_t side) : task_({.gpus = {.count = 1, .tf32 = true}}) {
  Sequential model = resnet50();
  model.set_compute(DType::bf16);
  const Program program =
      network_program({.network = model,
                       .outputs = {{.loss = Loss::sparse_softmax_cross_entropy, .metrics = {metrics::accuracy()}}},
                       .optimizer = optimizers::Momentum{.learning_rate = 0.1, .momentum = 0.9}});
  const BatchSchema schema{{.name = "images", .shape = Shape{side, side, 3}}, {.name = "labels", .dtype = DType::i32}};
  const TrainingGraph training = build_training_graph(program, schema, {.batch = batch});
  session_ = std::make_unique<Session>(task_, *training.graph);
  session_->run_targets({training.initializer});
  step_ = session_->callable(training.batches[0], {training.phases[0].figures[0]}, {training.phases[0].train});
  std::mt19937 engine(1);
  Tensor images = task_.pinned_memory()->tensor(DType::f32, Shape{batch, side, side, 3});
  Tensor labels = task_.pinned_memory()->tensor(DType::i32, Shape{batch});
  std::uniform_real_distribution<float> value(-1, 1);
  for (float& pixel : images.mutable_values<float>()) pixel = value(engine);
  for (std::int32_t& label : labels.mutable_values<std::int32_t>())
    label = static_cast<std::int32_t>(engine() % kClasses);
  feeds_ = {images, labels};
}

double GpuResNet::steps_per_second(double seconds) const {
  std::deque<std::future<std::vector<Tensor>>> running;
  running.push_back(step_.async(feeds_));  // each step that ends is replaced while time is measured
  const double per_step = seconds_per_call(seconds, [&] {
    running.push_back(step_.async(feeds_));
    running.front().get();
    running.pop_front();
  });
  for (auto& step : running) step.get();
  return 1 / per_step;
}

}  // namespace troupe::bench
