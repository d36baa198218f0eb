// SavedModels of TensorFlow (https://www.tensorflow.org/guide/saved_model) as graphs, and graphs as SavedModels.
// Read are those of version 2, made of functions, as tf.saved_model.save and Keras' model.export() write them, and
// those of version 1, a graph with signatures, if their variables are resources. Written are those of version 1.
// Directories are actors/model/tensorflow_model.hpp; this is what is in their saved_model.pb.
//
// Reading trusts nothing: files that are truncated, cyclic, or claim more than they hold get an error.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
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

struct TensorflowExport {
  // The functions that the model offers. Any tensors may be inputs; what they are computed from is left out. An input
  // that several signatures have is of all of them.
  std::map<std::string, TensorflowSignature> signatures{};
  std::map<std::string, Tensor> variables{};  // the values of those that the outputs need
  // Named `trainable` in the model, so that other programs may train them.
  std::set<std::string> trainable{};
};

struct TensorflowBytes {
  std::string model{};                   // saved_model.pb
  std::vector<std::string> variables{};  // their names in the bundle, in the order of the alphabet
};

// The part of a graph that computes the signatures' outputs, as a model of version 1 of ops of TensorFlow 2: loaded by
// tf.saved_model.load, TensorFlow Serving and others. Nodes keep their names, as far as TensorFlow allows them; what a
// node needs beside is named below it. Equal graphs have equal bytes. Variables are resources that the ops "save/..."
// restore from the bundle; tables are filled by the op "init". Loops and recurrent layers become StatelessWhile,
// branches StatelessIf. Control edges, devices and gradients of the graph are not part of a model. Constants are in the
// file, which has at most 2 GiB.
//
// Throws unimplemented (lists every node that TensorFlow's ops cannot express; or a signature has a list),
// invalid_argument (a placeholder that is no input, a variable without a value) or resource_exhausted (too many
// constants).
TensorflowBytes to_tensorflow(const Graph& graph, const TensorflowExport& what);

// Ops of our graphs that to_tensorflow() writes, in alphabetical order.
std::vector<std::string> tensorflow_written_ops();

}  // namespace troupe
