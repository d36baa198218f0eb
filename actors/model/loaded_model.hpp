// A saved model as functions: reads a directory, and runs what its signatures name.
//
//   const LoadedModel model = load_model("linear");
//   Tensor scores = model.run("predict", {{"examples", x}}).at("scores");
//   const ModelCallable predict = model.callable("predict");  // again and again, by position
//   scores = predict({x})[0];
//
// All signatures share the values, which stay views of the files where these are mapped (saved_model.hpp). Variables
// become constants, so that what is made of them alone is computed once, and passes for inference count on them; a
// signature that changes variables needs a model that is not frozen.
//
// Thread-safe. A copy, and a callable, is the same model, and keeps it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/batch_inference.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

struct TraceStep;

struct LoadedModelOptions {
  LoadModelOptions reading{};
  Task* task = nullptr;  // where it runs, which must outlive the model; null: a task of its own, with one CPU device
  bool freeze = true;    // variables become constants; false: variables of its session, which steps may change
  // Its passes for inference change bits, within tolerances that each states; inference = std::nullopt: none.
  SessionOptions session{.inference = InferencePasses{}};
};

// A signature's function. Cheap to copy.
class ModelCallable {
 public:
  // Takes the inputs in the order of their names, and returns the outputs in the order of theirs, as in signature().
  // Throws invalid_argument, saying what is expected, for another number of inputs, another dtype or shape, and the
  // first error of the step.
  std::vector<Tensor> operator()(std::vector<Tensor> inputs, const RunOptions& options = {}) const;
  // The inputs in their order. Throws invalid_argument for a name that is no input's and an input that is not there.
  std::vector<Tensor> ordered(std::map<std::string, Tensor> inputs) const;
  // Throws what a call would throw for these inputs.
  void check(const std::vector<Tensor>& inputs) const;
  // The same for callers that do not wait (Callable::start, Callable::start_here). Throws for inputs; errors of the
  // step go to `done`.
  StepId start(std::vector<Tensor> inputs, const RunOptions& options, std::function<void(StepResult)> done) const;
  StepId start_here(std::vector<Tensor> inputs, const RunOptions& options, std::function<void(StepResult)> done) const;
  // A step that was started ends with Code::cancelled, unless it has ended.
  void cancel(StepId step) const;
  // A step that was started, as traces name it (scheduler/trace/trace.hpp).
  TraceStep traced(StepId step) const;
  const ModelSignature& signature() const;

 private:
  friend class LoadedModel;
  const Callable& compiled_for(const std::vector<Tensor>& inputs) const;
  struct State;
  std::shared_ptr<const State> state_;
};

class LoadedModel {
 public:
  // `model` is what read_model() reads. One of layers without a graph gets its graph from them; without signatures it
  // has "predict", of all inputs and results. Throws failed_precondition for a model with neither layers nor graph, or
  // without signatures, and for layers that do not know their inputs; not_found for a variable without a value.
  // Shares the tensors of `model`: nobody may write to them afterwards.
  explicit LoadedModel(SavedModel model, const LoadedModelOptions& options = {});

  // By name; each names tensors of the model's graph.
  const std::map<std::string, ModelSignature>& signatures() const;
  // Outputs by name. Throws what callable() and its call throw, and invalid_argument for a name that is no input's and
  // for an input that is not there.
  std::map<std::string, Tensor> run(const std::string& signature, const std::map<std::string, Tensor>& inputs,
                                    const RunOptions& options = {}) const;
  // Compiled when it is first called. Throws not_found, naming the signatures there are.
  ModelCallable callable(const std::string& signature) const;

  // The outputs by name, each [n,...], for all examples of a source in its order, computed by all devices of the task's
  // cluster, batch after batch (actors/model/batch_inference.hpp). Inputs are the source's components of their names.
  // Errors name the batch. Throws failed_precondition for a model that is not frozen; not_found for an input that the
  // source lacks; invalid_argument for one of another dtype or shape, an output without a row for each example, and a
  // source without examples; unavailable if all devices are lost; errors of reading and of steps.
  std::map<std::string, Tensor> predict(const std::string& signature, const BatchSource& source,
                                        const BatchInferenceOptions& options = {}) const;
  // Hands out the results of each batch instead of keeping them: outputs may be of any shape.
  BatchInferenceProgress predict(const std::string& signature, const BatchSource& source,
                                 const BatchInferenceOptions& options, const TakePredictions& take) const;

  // Files of the user's by name, such as vocabularies; and the user's texts.
  const std::map<std::string, std::string>& assets() const;
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// Reads the directory, on the file system of its scheme (devices/storage/file_systems.hpp), as read_model() does.
LoadedModel load_model(const std::string& directory, const LoadedModelOptions& options = {});

}  // namespace troupe
