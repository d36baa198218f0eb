// Eager mode: what an op costs that runs when it is called, and what training costs by such ops, and traced.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/compared_training.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe::bench {
namespace {

struct Sum {
  explicit Sum(const Shape& shape) {
    const Tensor left = random_tensor(shape, 1), right = random_tensor(shape, 2);
    files.write("a", left);
    files.write("b", right);
    a = constant(eager.graph(), left);
    b = constant(eager.graph(), right);
  }
  Output operator()() const { return a + b; }

  TensorFiles files;
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  Eager eager{task};
  Output a, b;
};

Contest sums(const Settings& settings, const Shape& shape) {
  const auto sum = std::make_shared<Sum>(shape);
  constexpr int kOps = 1000;  // between two looks at the clock
  Contest contest{.troupe =
                      [sum, slice = settings.slice_seconds()] {
                        return kNano / kOps * seconds_per_call(slice, [&] {
                                 for (int i = 0; i < kOps; ++i) (*sum)();
                               });
                      },
                  .peers = {}};
  for (const std::string framework : {"jax", "tensorflow", "torch"}) {
    const auto check = [&] { check_close((*sum)().value(), sum->files.read("sum", shape).data<float>(), 0); };
    if (auto peer = python_peer(settings, "eager_peer.py", {sum->files.directory(), framework}, check, kNano))
      contest.peers.push_back(std::move(*peer));
  }
  return contest;
}

// The perceptron of troupe-mnist on one batch.
class Perceptron {
 public:
  explicit Perceptron(const TensorFiles& files) {
    const Tensor images = random_tensor(Shape{kBatch, 784}, 1);
    Tensor classes(DType::i32, Shape{kBatch});
    for (int i = 0; i < kBatch; ++i) classes.mutable_data<std::int32_t>()[i] = i * 7 % 10;
    files.write("x", images);
    files.write("labels", classes);
    x_ = constant(eager_.graph(), images);
    labels_ = constant(eager_.graph(), classes);
    add(files, "dense/kernel", {784, 128}, 0.05);
    add(files, "dense/bias", {128}, 0);
    add(files, "dense_1/kernel", {128, 10}, 0.1);
    add(files, "dense_1/bias", {10}, 0);
  }

  Output step() {
    return optimizer_.minimize([&] { return loss(x_, labels_); }, weights_);
  }
  Output traced_step() { return traced_({x_, labels_})[0]; }

 private:
  static constexpr int kBatch = 32;

  void add(const TensorFiles& files, const std::string& name, const Shape& shape, double scale) {
    Tensor value = random_tensor(shape, static_cast<int>(weights_.size()) + 2);
    for (float& v : value.mutable_values<float>()) v *= static_cast<float>(scale);
    std::string file = name;
    std::ranges::replace(file, '/', '.');
    files.write(file, value);
    weights_.push_back(variable(eager_.graph(), {.name = name, .initial_value = constant(eager_.graph(), value)}));
  }
  Output loss(const Output& x, const Output& labels) const {
    const Output hidden = relu(matmul(x, weights_[0].read()) + weights_[1].read());
    return mean(sparse_softmax_cross_entropy(matmul(hidden, weights_[2].read()) + weights_[3].read(), labels));
  }

  Task task_{{.threads = 1, .gpus = {.count = 0}}};
  Eager eager_{task_};
  Output x_, labels_;
  std::vector<VariableRef> weights_;
  EagerOptimizer optimizer_{optimizers::Adam{.learning_rate = 1e-3}};
  TracedFunction traced_{eager_, [this](const Outputs& in) -> Outputs {
                           return {optimizer_.minimize([&] { return loss(in[0], in[1]); }, weights_)};
                         }};
};

Contest training(const Settings& settings, Output (Perceptron::*step)(), const std::vector<std::string>& peers) {
  const auto files = std::make_shared<TensorFiles>();
  const auto model = std::make_shared<Perceptron>(*files);
  std::vector<float> losses;
  for (int i = 0; i < kComparedSteps; ++i) losses.push_back(((*model).*step)().value().item<float>());
  Contest contest{.troupe =
                      [=, files = files, slice = settings.slice_seconds()] {
                        return kMicro * seconds_per_call(slice, [&] { ((*model).*step)(); });
                      },
                  .peers = {}};
  for (const std::string& name : peers)
    if (auto peer = training_peer(name, *files, losses, settings, kMicro)) contest.peers.push_back(std::move(*peer));
  return contest;
}

}  // namespace

std::vector<float> write_perceptron(const TensorFiles& files) {
  Perceptron model(files);
  std::vector<float> losses;
  for (int i = 0; i < kComparedSteps; ++i) losses.push_back(model.step().value().item<float>());
  return losses;
}

void add_eager_cases(std::vector<Case>& cases) {
  const std::string peer = "jax, TensorFlow and PyTorch, eager, from Python";
  cases.push_back({.bench = "eager",
                   .name = "add-scalars",
                   .unit = "ns/op",
                   .measures = "the sum of two f32 scalars, at once, from C++; 1 thread",
                   .peer = peer,
                   .ratio_target = 15,
                   .value_target = 400,
                   .prepare = [](const Settings& settings) { return sums(settings, Shape{}); }});
  cases.push_back({.bench = "eager",
                   .name = "add-64x64",
                   .unit = "ns/op",
                   .measures = "the sum of two f32 matrices of 64x64, at once, from C++; 1 thread",
                   .peer = peer,
                   .ratio_target = 10,
                   .value_target = 800,
                   .prepare = [](const Settings& settings) {
                     return sums(settings, Shape{64, 64});
                   }});
  const std::string step = "a training step of the perceptron of troupe-mnist, batch 32, Adam, ";
  cases.push_back({.bench = "eager",
                   .name = "mlp",
                   .unit = "us/step",
                   .measures = step + "op by op, from C++; 1 thread",
                   .peer = "TensorFlow and PyTorch, eager, from Python",
                   .ratio_target = 1.5,
                   .prepare = [](const Settings& settings) {
                     return training(settings, &Perceptron::step, {"mlp-tensorflow", "mlp-torch"});
                   }});
  cases.push_back(
      {.bench = "eager",
       .name = "function-mlp",
       .unit = "us/step",
       .measures = step + "traced, from C++; 1 thread",
       .peer = "jax, jit",
       .ratio_target = 1.2,
       .prepare = [](const Settings& settings) { return training(settings, &Perceptron::traced_step, {"mlp-jax"}); }});
}

}  // namespace troupe::bench
