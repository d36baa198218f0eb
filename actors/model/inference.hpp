// Evaluation and prediction in one task, of given parameters.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/graph/training/towers.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

class Inference {
 public:
  // `program`: of batches with this schema, not in training. The task must outlive it.
  Inference(Task& task, const Program& program, const BatchSchema& schema);
  // The same of a graph that only predicts. Throws not_found for an input or output that it does not have, or an input
  // that the schema lacks.
  Inference(Task& task, const Graph& graph, const ModelSignature& signature, const BatchSchema& schema);

  // Variables of the program; their values are given to the functions below, and fed: a session has none of its own.
  const std::vector<VariableRef>& variables() const { return graph_.parameters; }
  const Graph& graph() const { return *graph_.graph; }
  // What predictions are made of and what they are.
  ModelSignature signature(const BatchSchema& schema) const;

  // The sums of all figures over a source's examples. `stop` ends it before the next batch: throws cancelled.
  NamedSums evaluate(const Parameters& values, const BatchSource& source, std::int64_t batch,
                     const std::atomic<bool>* stop = nullptr) const;
  const std::map<std::string, FigureResult>& results() const { return graph_.results; }
  // Predictions for all examples, in the source's order: [n,...] by name. Throws invalid_argument if a source without
  // examples is read, or if rows of batches differ in shape.
  std::map<std::string, Tensor> predict(const Parameters& values, const BatchSource& source, std::int64_t batch,
                                        const std::atomic<bool>* stop = nullptr) const;

 private:
  using Use = std::function<void(const std::vector<Tensor>& values, const Batch& batch)>;
  // Calls it with the variables' values and each batch.
  void for_each_batch(const Parameters& values, const BatchSource& source, std::int64_t batch,
                      const std::atomic<bool>* stop, const Use& use) const;

  void make_callables();

  Task& task_;
  TrainingGraph graph_;
  std::vector<std::size_t> fed_;  // components of a batch that predictions need
  Session session_;
  Callable evaluate_, predict_;
};

// Throws not_found or invalid_argument, naming `where`, unless each value is one of a variable, of its dtype and shape;
// with `all`, unless each variable has one.
void check_values(const std::vector<VariableRef>& variables, const Parameters& values, const std::string& where,
                  bool all);

}  // namespace troupe
