// A model as its user sees it: layers, a loss, an optimizer; fit, evaluate, predict, save, load. The same program
// trains in one process and, as every task of a cluster, on parameter shards.
//
//   Model model({layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)}, Shape{28, 28, 1});
//   model.compile(optimizers::Adam{});
//   DataSplits data = draw_digits();
//   model.fit(data, {.epochs = 5, .batch = 32});
//   fmt::print("Test accuracy: {:.4f}\n", model.evaluate(data.test).accuracy);
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/training/job.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/kernels/readers/dataset.hpp>

namespace troupe {

// How a model computes; all tasks of a job must say the same.
struct ModelOptions {
  // What products are computed in: bf16 or f16, with weights, losses and updates in f32. Layers that say themselves
  // what they compute in are left alone. f16 trains with a scaled loss.
  DType precision = DType::f32;
  LossScaling loss_scaling{};  // for f16
  // The gradients of each slot are scaled down together if their norm is greater (graph/training/clipping.hpp). 0: they
  // are not.
  double clip_norm = 0;
};

struct Evaluation {
  double loss = 0;  // mean over the examples
  double accuracy = 0;
};

class Model {
 public:
  // `input` is the shape of one example. The loss is softmax cross-entropy on integer labels.
  Model(Sequential layers, Shape input);
  Model(std::initializer_list<std::shared_ptr<const Layer>> layers, Shape input) : Model(Sequential(layers), input) {}
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // The optimizer, and where to run: a task of its own by default; `task` is there while the model computes. Several
  // CPU devices of a task share the slots of local training. Throws invalid_argument for options that make no sense.
  void compile(Optimizer optimizer, const ModelOptions& options = {});
  void compile(Optimizer optimizer, Task& task, const ModelOptions& options = {});

  // Trains on data.train, evaluating on data.test after each epoch. A second call with the same options and as many
  // examples goes on where the first has ended: two of 5 epochs have the bits of one of 10; epochs, steps and seconds
  // count on. With others it goes on from the parameters, and the optimizer begins anew, as after compile(). If
  // `options.stop` ends it, the parameters are those of then. In callbacks, evaluate(), predict() and save() see the
  // parameters of that moment.
  //
  // In sync and async mode this is one task of a
  // cluster that has joined it: a worker trains, a ps task serves its shard until the job ends; in allreduce mode, all
  // tasks are workers and end with the same parameters. All tasks must call it with the same options and data. Throws
  // what ends the job, on every task; a lost worker is named.
  TrainingResult fit(const DataSplits& data, const TrainingOptions& options);

  Evaluation evaluate(const Dataset& test);
  // Class probabilities [n, classes] for examples [n, ...input]: u8 as in a data set, or f32 from 0 to 1, what fit()
  // makes of that. Throws invalid_argument for others.
  Tensor predict(const Tensor& examples);

  // One file with all parameters, running averages too. load() checks names, dtypes and shapes. Written durably:
  // complete or not at all.
  void save(const std::string& path);
  void load(const std::string& path);

  // Of the parameters: docs/design/training.md.
  std::string params_sha256();
  std::string summary() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
