// SavedModels of TensorFlow from their directories:
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
#pragma once

#include <string>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>

namespace troupe {

// Throws what parse_tensorflow() throws, and errors of the file system; they name the directory or the file. Nothing
// outside of the directory is read: on this machine, symbolic links that lead there are refused.
TensorflowModel import_tensorflow(FileSystem& files, const std::string& directory,
                                  const TensorflowImportOptions& options = {});
TensorflowModel import_tensorflow(const std::string& directory, const TensorflowImportOptions& options = {});

}  // namespace troupe
