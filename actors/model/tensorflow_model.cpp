#include "troupe/actors/model/tensorflow_model.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <troupe/actors/model/replace_directory.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/kernels/readers/tensor_bundle.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr const char* kTensorflowFile = "saved_model.pb";
constexpr const char* kVariables = "variables";
constexpr std::uint64_t kMaxTensorflowModel = (1ull << 31) - 1;
constexpr std::uint64_t kMaxTensorflowAsset = 1ull << 30;

// Files of a directory and of those below it.
class TensorflowDirectory {
 public:
  TensorflowDirectory(FileSystem& files, std::string directory) : files_(files), directory_(std::move(directory)) {}

  // The path of a file in a folder, "" for the directory itself; throws invalid_argument if it may lie elsewhere.
  std::string path(const std::string& folder, const std::string& name) const {
    namespace fs = std::filesystem;
    const fs::path relative(name);
    bool outside = name.empty() || name.find('\0') != name.npos || relative.is_absolute() ||
                   std::ranges::find(relative, fs::path("..")) != relative.end();
    const std::string path = join_path(join_path(directory_, folder), name);
    if (!outside && &files_ == &posix_file_system()) {
      std::error_code error;
      const fs::path base = fs::weakly_canonical(directory_, error);
      const fs::path target = error ? fs::path() : fs::weakly_canonical(path, error);
      outside = error || std::ranges::mismatch(base, target).in1 != base.end();
    }
    if (outside) invalid_argument("'{}': file '{}' is not in the directory of the model", directory_, name);
    return path;
  }
  std::string read(const std::string& folder, const std::string& name, std::uint64_t limit) const {
    return read_file(files_, path(folder, name), limit);
  }

  TensorBundle& variables() {
    if (bundle_) return *bundle_;
    const std::string folder = path("", kVariables);
    for (const DirectoryEntry& entry : files_.list(folder)) static_cast<void>(path(kVariables, entry.name));
    return bundle_.emplace(files_, join_path(folder, kVariables));
  }

 private:
  FileSystem& files_;
  std::string directory_;
  std::optional<TensorBundle> bundle_;
};

}  // namespace

TensorflowModel import_tensorflow(FileSystem& files, const std::string& directory,
                                  const TensorflowImportOptions& options) {
  TensorflowDirectory model(files, directory);
  const std::string bytes = model.read("", kTensorflowFile, kMaxTensorflowModel);
  const TensorflowFiles beside{
      .tensor = [&](const std::string& key) { return model.variables().read(key); },
      .asset = [&](const std::string& name) { return model.read("assets", name, kMaxTensorflowAsset); }};
  try {
    return parse_tensorflow(bytes, beside, options);
  } catch (...) {
    throw current_error().within(directory);
  }
}

TensorflowModel import_tensorflow(const std::string& directory, const TensorflowImportOptions& options) {
  return import_tensorflow(posix_file_system(), directory, options);
}

void export_tensorflow(FileSystem& files, const std::string& given, const Graph& graph,
                       const std::map<std::string, TensorflowSignature>& signatures, const Parameters& values) {
  const std::string directory = without_slashes(given);
  TensorflowExport what{.signatures = signatures, .variables = values};
  for (const VariableInfo& variable : variables(graph))
    if (variable.trainable) what.trainable.insert(variable.name);
  const TensorflowBytes bytes = to_tensorflow(graph, what);
  if (files.exists(directory))
    check_entries(
        files, directory,
        {kTensorflowFile, kVariables, "assets", "assets.extra", "debug", "fingerprint.pb", "keras_metadata.pb"});
  std::vector<NamedTensor> saved;
  for (const std::string& name : bytes.variables) saved.push_back({name, values.at(name)});
  replace_directory(files, directory, [&](const std::string& path) {
    files.make_directory(path);
    files.make_directory(join_path(path, kVariables));
    write_tensor_bundle(files, join_path(join_path(path, kVariables), kVariables), TensorSource::of(saved));
    // Last: this syncs the directory, and with it the folder's name.
    replace_file(files, join_path(path, kTensorflowFile), bytes.model, temporary_suffix());
  });
}

}  // namespace troupe
