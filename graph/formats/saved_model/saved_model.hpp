// SavedModels of TensorFlow (https://www.tensorflow.org/guide/saved_model) as graphs: those of version 2, made of
// functions, as tf.saved_model.save and Keras' model.export() write them. Reading the directory is
// actors/model/tensorflow.hpp; this is what is in its saved_model.pb.
//
// Reading trusts nothing: files that are truncated, cyclic, or claim more than they hold get an error.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// A function that the model offers: named tensors in, named tensors out.
struct TensorflowSignature {
  std::map<std::string, Output> inputs{};  // Placeholders
  std::map<std::string, Output> outputs{};
};

struct TensorflowModel {
  std::unique_ptr<Graph> graph{};
  std::map<std::string, TensorflowSignature> signatures{};  // "serving_default", ...
  std::vector<std::string> variables{};                     // of the graph, that the signatures read
  std::string version{};                                    // of the TensorFlow that wrote it
};

struct TensorflowImportOptions {
  std::vector<std::string> signatures{};  // only these; empty: all
  // Whether variables that were trainable in TensorFlow are so here. Otherwise none is.
  bool trainable = true;
};

// What lies beside saved_model.pb.
struct TensorflowFiles {
  // A tensor of the bundle of variables, by its key. Throws not_found.
  std::function<Tensor(const std::string& key)> tensor{};
  // The content of a file in the folder "assets".
  std::function<std::string(const std::string& name)> asset{};
};

// The signatures of a model as one graph: calls of functions are their nodes, If and While are ours, and variables have
// the values of the bundle as initial ones: run the target initializer(graph) first.
//
// Throws data_loss (not a SavedModel, or damaged), unimplemented (lists all ops that are not known, with their nodes;
// models of other kinds), not_found (a signature) or invalid_argument; errors name the node and its function.
TensorflowModel parse_tensorflow(std::string_view bytes, const TensorflowFiles& files,
                                 const TensorflowImportOptions& options = {});

// The ops of TensorFlow that are read, in alphabetical order.
std::vector<std::string> tensorflow_ops();

}  // namespace troupe
