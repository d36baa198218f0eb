// The user's interface to a model: layers, a loss, an optimizer; fit, evaluate, predict, save, load. The same program
// trains in one process or, run as every task of a cluster, on parameter shards.
//
//   Model model({layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)}, Shape{28, 28, 1});
//   model.compile(optimizers::Adam{});
//   DataSplits data = draw_digits();
//   model.fit(data, {.epochs = 5, .batch = 32});
//   fmt::print("Test accuracy: {:.4f}\n", model.evaluate(data.test)["accuracy"]);
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/training/job.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/kernels/readers/dataset.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

// How a model computes; the same on all tasks of a job.
struct ModelOptions {
  // Dtype of products: f32, bf16 or f16; weights, losses and updates stay in f32. Layers that set their own dtype keep
  // it. f16 trains with a scaled loss.
  DType precision = DType::f32;
  LossScaling loss_scaling{};  // for f16
  // Maximum norm of a slot's gradients, which are scaled down together if they exceed it (graph/training/clipping.hpp).
  // 0: no clipping.
  double clip_norm = 0;
};

struct Evaluation {
  Figures figures{};  // "loss", "accuracy": means over the examples
  // Throws not_found, naming the figures there are.
  double operator[](std::string_view figure) const { return find_figure(figures, figure); }
};

class Model {
 public:
  // `input` is the shape of one example. The loss is softmax cross-entropy on integer labels. Components of u8 are
  // divided by 255 before the first layer.
  Model(Sequential layers, Shape input);
  Model(std::initializer_list<LayerPtr> layers, Shape input) : Model(Sequential(layers), input) {}
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Sets the optimizer and where to run: by default on a task that the model creates; a given `task` must exist while
  // the model computes. Several CPU devices of a task share the slots of local training. Throws invalid_argument for
  // invalid options.
  void compile(Optimizer optimizer, const ModelOptions& options = {});
  void compile(Optimizer optimizer, Task& task, const ModelOptions& options = {});

  // Trains on batches with the components "images" and "labels", evaluating on others of the same schema after each
  // epoch. A second call with the same options and number of
  // examples continues where the first ended: two of 5 epochs give the bits of one of 10; epochs, steps and seconds
  // keep counting. With others it keeps the parameters but restarts the optimizer, as after compile(). If
  // `options.stop` ends it, the model keeps the parameters of that moment. In callbacks, evaluate(), predict() and
  // save() see the current parameters.
  //
  // In modes sync, ssp and async this process is one task of a cluster that it has joined: a worker trains, a ps task
  // serves its shard until the job ends; in mode allreduce all tasks are workers and end with the same parameters. All
  // tasks must call it with the same options and data. Throws the error that ends the job, on every task; a lost worker
  // is named.
  TrainingResult fit(const BatchSource& train, const TrainingOptions& options) { return fit(train, nullptr, options); }
  TrainingResult fit(const BatchSource& train, const BatchSource& evaluation, const TrainingOptions& options) {
    return fit(train, &evaluation, options);
  }
  TrainingResult fit(const DataSplits& data, const TrainingOptions& options);

  Evaluation evaluate(const BatchSource& test);
  Evaluation evaluate(const Dataset& test);
  // Class probabilities [n, classes] for examples [n, ...input]: u8 as in a data set, or f32 from 0 to 1, as fit()
  // scales u8. Throws invalid_argument for others.
  Tensor predict(const Tensor& examples);

  // One file with all parameters, including running averages. load() checks names, dtypes and shapes. save() is atomic
  // and durable.
  void save(const std::string& path);
  void load(const std::string& path);

  // Hash of the parameters: docs/design/training.md.
  std::string params_sha256();
  std::string summary() const;

 private:
  TrainingResult fit(const BatchSource& train, const BatchSource* evaluation, const TrainingOptions& options);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
