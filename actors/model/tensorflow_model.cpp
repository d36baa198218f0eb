#include "troupe/actors/model/tensorflow_model.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <troupe/kernels/readers/tensor_bundle.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

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
    const std::string folder = path("", "variables");
    for (const DirectoryEntry& entry : files_.list(folder)) static_cast<void>(path("variables", entry.name));
    return bundle_.emplace(files_, join_path(folder, "variables"));
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
  const std::string bytes = model.read("", "saved_model.pb", kMaxTensorflowModel);
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

}  // namespace troupe
