// The user's interface to what is trained: a network of layers with losses and metrics, or a program of one's own; fit,
// evaluate, predict, save, load. The same program trains in one process or, run as every task of a cluster, on
// parameter shards.
//
//   Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(128, Activation::relu),
//                layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
//   model.compile({.optimizer = optimizers::Adam{}, .loss = Loss::sparse_softmax_cross_entropy,
//                  .metrics = {metrics::accuracy()}});
//   DataSplits data = draw_digits();
//   model.fit(data, {.epochs = 5, .batch = 32});
//   fmt::print("Test accuracy: {:.4f}\n", model.evaluate(data.test)["accuracy"]);
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/batch_inference.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/actors/training/callback.hpp>
#include <troupe/actors/training/hook.hpp>
#include <troupe/actors/training/job.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/graph/training/clipping.hpp>
#include <troupe/graph/training/network_program.hpp>
#include <troupe/kernels/readers/dataset.hpp>
#include <troupe/scheduler/data/batch_source.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {

// How a model learns and computes; the same on all tasks of a job.
struct ModelOptions {
  Optimizer optimizer = optimizers::Adam{};
  // Of a model with one output: short for outputs = {{.loss = loss, .metrics = metrics}}.
  LossFunction loss{};
  std::vector<Metric> metrics{};
  std::vector<OutputTraining> outputs{};
  std::vector<std::string> train{"*"};  // names of the variables to train; patterns with * and ?
  // Dtype of products: f32, bf16 or f16; weights, losses and updates stay in f32. Layers that set their own dtype keep
  // it. f16 trains with a scaled loss.
  DType precision = DType::f32;
  LossScaling loss_scaling{};  // for f16
  Clipping clipping{};         // of each slot's gradients
};

struct Evaluation {
  Figures figures{};                        // "loss", "accuracy": of all examples
  std::map<std::string, Tensor> tensors{};  // figures that are no scalars: confusion matrices, scores by class
  // Throws not_found, naming the figures there are.
  double operator[](std::string_view figure) const { return find_figure(figures, figure); }
};

class Model {
 public:
  explicit Model(Network network);
  // `input` and `dtype` are those of one example.
  Model(Sequential layers, const Shape& input, DType dtype = DType::f32);
  Model(std::initializer_list<LayerPtr> layers, const Shape& input, DType dtype = DType::f32)
      : Model(Sequential(layers), input, dtype) {}
  // A program of one's own, which has its objectives, optimizers and figures: it needs no compile(). `schema` is that
  // of its batches; default: that of the data it is first fit to.
  explicit Model(Program program, BatchSchema schema = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Sets how it learns and where to run: by default on a task that the model creates; a given `task` must exist while
  // the model computes. Several CPU devices of a task share the slots of local training. Throws invalid_argument for
  // invalid options; those of a program may have no optimizer, loss, metrics, outputs or train of their own.
  void compile(const ModelOptions& options);
  void compile(const ModelOptions& options, Task& task);

  // Trains on batches, evaluating on others of the same schema after each epoch. A second call with the same options
  // and number of examples continues where the first ended: two of 5 epochs give the bits of one of 10; epochs, steps
  // and seconds keep counting. With others it keeps the parameters but restarts the optimizer, as after compile(). If
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
  // Batches with the components "images" and "labels", whose labels must be classes of the only output.
  TrainingResult fit(const DataSplits& data, const TrainingOptions& options);

  // `stop`, set by a signal handler, ends it before the next batch: throws cancelled. So it does in predict().
  Evaluation evaluate(const BatchSource& test, std::int64_t batch = 500, const std::atomic<bool>* stop = nullptr);
  Evaluation evaluate(const Dataset& test);
  // The outputs by name, each [n,...], of all examples of a source in its order; it needs no targets.
  std::map<std::string, Tensor> predict(const BatchSource& source, std::int64_t batch = 500,
                                        const std::atomic<bool>* stop = nullptr);
  // Likewise, computed by all devices of the cluster that the model's task has joined: LoadedModel::predict(), without
  // passes that change bits.
  std::map<std::string, Tensor> predict(const BatchSource& source, const BatchInferenceOptions& options);
  // The output of a model with one input and one output for examples [n,...].
  Tensor predict(const Tensor& examples);

  // Writes a directory with layers, graph, values, and where the training stands: actors/model/saved_model.hpp. Durable
  // and atomic. `more`: assets and metadata of the user's. Throws failed_precondition for a layer that cannot be
  // written, and what save_model() throws.
  void save(const std::string& directory, const SavedModel& more = {});
  // The model of such a directory; one that was a program predicts only. Compiled as it was, it continues the training
  // that was saved (modes local and allreduce). Throws what read_model() throws.
  static Model load(const std::string& directory, const LoadModelOptions& options = {});
  // Takes values of a saved model, checkpoint, .safetensors or .npz file: all, or those of a choice. A model without
  // parameters begins with them, and with initial values for the others. Restarts the optimizer. Throws what
  // load_values() throws, and not_found or invalid_argument for values that are not the model's; then nothing changes.
  void load_values(const std::string& path, const ValueChoice& choice = {});

  // All values, by name. Throws failed_precondition if there are none yet.
  Parameters parameters();
  // Gives variables other values, by name, and lets the training go on with them: the optimizer keeps its state. A
  // model without parameters takes all of them. Throws failed_precondition while fit() runs, and not_found or
  // invalid_argument for values that are not the model's; then nothing changes.
  void set_parameters(const Parameters& values);
  // Hash of the parameters, that of the last fit()'s TrainingResult: docs/design/training.md. Throws
  // failed_precondition if tables stayed on parameter servers.
  std::string params_sha256();
  // A table of the layers. Throws failed_precondition for a program.
  std::string summary() const;

 private:
  TrainingResult fit(const BatchSource& train, const BatchSource* evaluation, const TrainingOptions& options);

  class Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
