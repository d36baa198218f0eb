// Runs a signature over the batches of a source: the actors' side of scheduler/run/batch_assignments.hpp.
#pragma once

#include <map>
#include <string>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/batch_inference.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

// What replicas compute. What it refers to must outlive the run.
struct BatchFunction {
  std::string name{};  // of the signature
  const Graph& graph;  // without variables
  const ModelSignature& signature;
  SessionOptions session{};
};

// Throws not_found for an input that the source lacks or without any device of the job; invalid_argument for one of
// another dtype or shape, and for options out of range; errors of reading and of steps with the batch's number, of
// replicas with the device's name; unavailable as the options say.
BatchInferenceProgress run_batches(Task& task, const BatchFunction& function, const BatchSource& source,
                                   const BatchInferenceOptions& options, const TakePredictions& take);
// Throws invalid_argument, naming the output, unless all outputs have one row for each example.
void check_rows(const PredictedBatch& batch);
// The results of all batches one after the other. Also throws invalid_argument for a source without examples, and
// outputs that do not have one row for each example.
std::map<std::string, Tensor> predict_all(Task& task, const BatchFunction& function, const BatchSource& source,
                                          const BatchInferenceOptions& options);

}  // namespace troupe
