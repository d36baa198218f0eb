// SavedModels of TensorFlow from their directories, and into them:
//
//   DIR/saved_model.pb           signatures, functions, objects   messages/proto/tensorflow.proto
//   DIR/variables/variables.*    a bundle of tensors              kernels/readers/tensor_bundle.hpp
//   DIR/assets/...               vocabularies of tables
//
//   TensorflowModel model = import_tensorflow("exported");
//   const TensorflowSignature& serve = model.signatures.at("serving_default");
//   const Output initialize = initializer(*model.graph);
//   Session session(*model.graph);
//   session.run_targets({initialize});
//   session.run({{serve.inputs.at("x"), images}}, serve.outputs.at("output_0"));
//
//   export_tensorflow(posix_file_system(), "served/1", graph, {{"serving_default", {{{"x", x}}, {{"scores", y}}}}},
//                     values);
#pragma once

#include <map>
#include <string>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>

namespace troupe {

// Throws what parse_tensorflow() throws, and errors of the file system; they name the directory or the file. Nothing
// outside of the directory is read: on this machine, symbolic links that lead there are refused.
TensorflowModel import_tensorflow(FileSystem& files, const std::string& directory,
                                  const TensorflowImportOptions& options = {});
TensorflowModel import_tensorflow(const std::string& directory, const TensorflowImportOptions& options = {});

// Writes a model of version 1 (to_tensorflow()): saved_model.pb and variables/variables.*, durably and atomically, like
// save_model(). `values`: those of the variables that the outputs need; others are left out. Throws what
// to_tensorflow() throws, FileSystem's errors, and failed_precondition for a name that is taken by a file or by a
// directory with anything that is of no SavedModel.
void export_tensorflow(FileSystem& files, const std::string& directory, const Graph& graph,
                       const std::map<std::string, TensorflowSignature>& signatures, const Parameters& values);

}  // namespace troupe
