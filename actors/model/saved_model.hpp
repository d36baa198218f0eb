// Models as directories:
//
//   DIR/model.pb               proto::SavedModel (messages/proto/model.proto): layers, graph, signatures, how the model
//                              was compiled, where its training stands
//   DIR/values.safetensors     values of the variables
//   DIR/optimizer.safetensors  those that training needs beside them; absent if there are none
//   DIR/assets/...             files of the user's, by name
//   DIR/metadata.json          format, Troupe's version, time, params_sha256; size and SHA-256 of each file above
//
// save_model() writes all of it beside DIR, durably, and then gives it its name. A directory of that name that is a
// saved model is replaced: at each moment a reader sees the old or the new one in full (a file system that cannot
// exchange two names has a moment with neither; the old one is then DIR.old-...). A crash leaves the old or the new one
// at DIR, and may leave the other, or part of it, at DIR.tmp-..., which nothing reads and anyone may remove.
//
// read_model() maps the files of tensors where their file system can: values are views of the file, which processes
// share, and are read from the disk when they are used. A model that was read keeps them when its directory is replaced
// or removed. Never write to a file of such a directory: replace the directory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/graph/layers/registry.hpp>

namespace troupe {

// A function that the model offers: named tensors in, named tensors out.
struct ModelSignature {
  struct TensorSpec {
    std::string tensor{};  // of the graph, like "dense/add:0"; of a model without one, an input or result of its layers
    DType dtype = DType::invalid;
    Shape shape{};
    std::string description{};  // for people: what it means, its unit, its range
    bool operator==(const TensorSpec&) const = default;
  };
  std::map<std::string, TensorSpec> inputs{};
  std::map<std::string, TensorSpec> outputs{};
  std::string description{};  // for people: what the function does
  bool operator==(const ModelSignature&) const = default;
};

struct SavedModel {
  std::optional<Network> network{};  // none: a program that is not made of layers
  std::shared_ptr<Graph> graph{};    // for inference; null: none
  std::map<std::string, ModelSignature> signatures{};
  Parameters values{};
  // How it was compiled: texts by name, like "optimizer": "adam(learning_rate=0.001, ...)" (parse_optimizer).
  std::map<std::string, std::string> compiled{};
  // Where its training stands, so that it can continue: the other variables by name, JobState as text, and the settings
  // that it was trained with.
  std::map<std::string, Tensor> optimizer{};
  std::string position{};
  std::string settings{};
  std::map<std::string, std::string> assets{};    // content by file name
  std::map<std::string, std::string> metadata{};  // texts of the user's
};

// Throws FileSystem's errors; failed_precondition for a name that is taken by a file, or by a directory with anything
// that save_model() did not write, and for layers that cannot be written; invalid_argument for an asset whose name is
// no plain file name, for assets above kMaxAssetBytes, and for a signature whose tensor the graph does not have.
void save_model(FileSystem& files, const std::string& directory, const SavedModel& model);
// For before a long training: makes the folders around the directory, and throws what save_model() would throw for its
// name or for lack of permission.
void check_model_directory(FileSystem& files, const std::string& directory);

struct LoadModelOptions {
  const LayerRegistry& layers = standard_layers();
  const OpRegistry& ops = standard_ops();  // outlives the graph
  // Tensors of a multiple of 64 bytes, and others that happen to begin at one, are views of their file.
  bool map_values = true;
  // Whether each byte of the tensors is read and hashed. Not set: of files that are not mapped, which are read anyway;
  // those that are mapped must have their size and a header that fits it.
  std::optional<bool> verify_values{};
};
// Reads what save_model() wrote. Nothing is trusted, and nothing outside of the directory is read. Throws not_found for
// a directory that is no saved model or lacks a file, data_loss for one that is damaged or has a symbolic link in a
// file's place, resource_exhausted for a model.pb or assets above their limits, unimplemented for one of a later
// Troupe, unavailable if others replace the model again and again, and the errors of parse_network() and parse_graph();
// all name the file.
SavedModel read_model(FileSystem& files, const std::string& directory, const LoadModelOptions& options = {});

// Whether the path is a directory with a metadata.json, so that read_model() would try it.
bool is_saved_model(FileSystem& files, const std::string& path);

// What metadata.json says.
struct SavedModelFile {
  std::uint64_t bytes = 0;
  std::string sha256{};
};
struct SavedModelInfo {
  std::string troupe{};  // the version that wrote it
  std::string saved{};   // UTC: "2026-11-25T12:40:30Z"
  std::string params_sha256{};
  std::map<std::string, SavedModelFile> files{};  // by path in the directory
};
// Throws like read_model().
SavedModelInfo saved_model_info(FileSystem& files, const std::string& directory);

inline constexpr std::uint64_t kMaxModelBytes = 0x7fffffff;              // of model.pb: protobuf's limit
inline constexpr std::uint64_t kMaxAssetBytes = std::uint64_t{1} << 30;  // of all assets, which are held in memory
inline constexpr const char* kModelValues = "values.safetensors";
inline constexpr const char* kModelOptimizer = "optimizer.safetensors";

}  // namespace troupe
