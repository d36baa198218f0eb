// A model of any format that is read, as one thing: a graph, functions that it offers, and values of its variables.
// What runs, serves or converts models needs no more.
//
//   const AnyModel model = read_any_model(posix_file_system(), "resnet50.onnx");
//   const ModelSignature& predict = model.signatures.at("predict");
//   const std::unique_ptr<Graph> frozen = freeze(*model.graph, model.values);
//
// The format follows from what is there: a directory of save_model() (actors/model/saved_model.hpp), a SavedModel of
// TensorFlow (actors/model/tensorflow_model.hpp), or a file of ONNX (graph/formats/onnx/onnx.hpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/actors/model/saved_model.hpp>

namespace troupe {

enum class ModelFormat : std::uint8_t { troupe, tensorflow, onnx };
std::string_view name(ModelFormat format);  // "troupe", "tensorflow", "onnx"

// The signature of models that have one without a name, as those of ONNX.
inline constexpr const char* kOnlySignature = "predict";

struct AnyModel {
  ModelFormat format = ModelFormat::troupe;
  std::string producer{};          // "Troupe 0.1.0", "TensorFlow 2.21.0", "pytorch 2.1, opset 17"; "": not said
  std::shared_ptr<Graph> graph{};  // nodes that the signatures need
  std::map<std::string, ModelSignature> signatures{};
  Parameters values{};  // of the graph's variables
};

// Tells the format of what is at this path. Throws not_found if nothing is there, invalid_argument (saying what is
// expected) for a directory that has neither metadata.json nor saved_model.pb.
ModelFormat format_of_model(FileSystem& files, const std::string& path);

// Throws what format_of_model(), read_model(), import_tensorflow() and import_onnx() throw, and failed_precondition for
// a saved model without a graph. Errors of unknown ops list all of them.
AnyModel read_any_model(FileSystem& files, const std::string& path, const LoadModelOptions& options = {});

// Writes the model in a format; `signature` is the one that ONNX takes ("": the only one). Throws what save_model(),
// export_tensorflow() and export_onnx() throw; not_found, or invalid_argument if it needs a signature's name.
void write_any_model(FileSystem& files, const std::string& path, ModelFormat format, const AnyModel& model,
                     const std::string& signature = "");

// The signature of this name; of "", the only one, "predict" or "serving_default". Throws not_found that lists those
// that there are.
const std::string& signature_named(const AnyModel& model, const std::string& name);

}  // namespace troupe
