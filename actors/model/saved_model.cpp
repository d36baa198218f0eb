#include "troupe/actors/model/saved_model.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <troupe/actors/base/sha256.hpp>
#include <troupe/actors/model/replace_directory.hpp>
#include <troupe/actors/model/saved_model_format.hpp>
#include <troupe/kernels/readers/safetensors.hpp>

namespace troupe {
namespace {

constexpr const char* kModelFile = "model.pb";
constexpr const char* kInfoFile = "metadata.json";
constexpr const char* kAssets = "assets";
constexpr std::uint64_t kMaxInfoBytes = 64u << 20;
constexpr int kReadsOfReplaced = 3;  // while others save under the same name
constexpr std::size_t kHashedAtOnce = 1u << 20;

SavedModelFile hash_of_file(FileSystem& files, const std::string& path) {
  const std::unique_ptr<ReadableFile> file = files.open(path);
  const std::uint64_t size = file->size();
  Sha256 hash;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(size, kHashedAtOnce));
  for (std::uint64_t at = 0; at < size; at += buffer.size()) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), size - at));
    file->read(at, part);
    hash.add(part);
  }
  return {size, hash.hex()};
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::vector<NamedTensor> named(const std::map<std::string, Tensor>& tensors) {
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : tensors) out.push_back({name, tensor});
  return out;
}

// Writes a model's files into a new folder, one after the other, and remembers their hashes.
class ModelWriter {
 public:
  ModelWriter(FileSystem& files, std::string directory) : files_(files), directory_(std::move(directory)) {}

  void write(const SavedModel& model) {
    files_.make_directory(directory_);
    put(kModelFile, encode_model(model));
    write_safetensors(files_, path(kModelValues), named(model.values));
    remember(kModelValues);
    if (!model.optimizer.empty()) {
      write_safetensors(files_, path(kModelOptimizer), named(model.optimizer));
      remember(kModelOptimizer);
    }
    if (!model.assets.empty()) files_.make_directory(path(kAssets));
    for (const auto& [name, content] : model.assets) put(join_path(kAssets, name), content);
    info_.troupe = TROUPE_VERSION;
    info_.saved = utc_now();
    info_.params_sha256 = params_sha256(model.values);
    replace_file(files_, path(kInfoFile), encode_info(info_), temporary_suffix());
  }

 private:
  std::string path(const std::string& name) const { return join_path(directory_, name); }
  void put(const std::string& name, const std::string& content) {
    replace_file(files_, path(name), content, temporary_suffix());
    remember(name);
  }
  void remember(const std::string& name) { info_.files[name] = hash_of_file(files_, path(name)); }

  FileSystem& files_;
  std::string directory_;
  SavedModelInfo info_;
};

// What a saved model has, and nothing else, may be replaced.
void check_replaceable(FileSystem& files, const std::string& directory) {
  check_entries(files, directory, {kModelFile, kInfoFile, kModelValues, kModelOptimizer, kAssets});
}

class ModelReader {
 public:
  ModelReader(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)), info_(saved_model_info(files, directory_)) {}

  SavedModel read(const LoadModelOptions& options) {
    SavedModel model;
    try {
      model = decode_model(whole(kModelFile), options);
    } catch (const Error& error) {
      throw error.within(fmt::format("'{}'", path(kModelFile)));
    }
    model.values = tensors(kModelValues);
    if (info_.files.contains(kModelOptimizer)) model.optimizer = tensors(kModelOptimizer);
    const std::string assets = join_path(kAssets, "");
    for (const auto& [name, unused] : info_.files)
      if (name.starts_with(assets)) model.assets[name.substr(assets.size())] = whole(name);
    if (params_sha256(model.values) != info_.params_sha256)
      fail(Code::data_loss, "'{}' and '{}' are of two models: the hash of the parameters differs", path(kInfoFile),
           path(kModelValues));
    return model;
  }

  // Whether another model has taken the name since: then what was read may be of both.
  bool is_replaced() { return encode_info(saved_model_info(files_, directory_)) != encode_info(info_); }

 private:
  std::string path(const std::string& name) const { return join_path(directory_, name); }

  void check(const std::string& name) {
    const auto expected = info_.files.find(name);
    if (expected == info_.files.end())
      fail(Code::data_loss, "'{}' does not list '{}', which each saved model has", path(kInfoFile), name);
    SavedModelFile found;
    try {
      found = hash_of_file(files_, path(name));
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
      fail(Code::not_found, "the saved model '{}' is incomplete: it has no '{}'; copy the whole directory again",
           directory_, name);
    }
    if (found.bytes != expected->second.bytes)
      fail(Code::data_loss, "'{}' is damaged: it has {} bytes, and had {} when it was saved", path(name), found.bytes,
           expected->second.bytes);
    if (found.sha256 != expected->second.sha256)
      fail(Code::data_loss, "'{}' is damaged: its SHA-256 is {}, and was {} when it was saved", path(name),
           found.sha256, expected->second.sha256);
  }

  std::string whole(const std::string& name) {
    check(name);
    return read_file(files_, path(name), info_.files.at(name).bytes);
  }
  std::map<std::string, Tensor> tensors(const std::string& name) {
    check(name);
    SafetensorsFile file(files_, path(name));
    std::map<std::string, Tensor> out;
    for (const TensorInfo& info : file.tensors()) out[info.name] = file.read(info.name);
    return out;
  }

  FileSystem& files_;
  std::string directory_;
  SavedModelInfo info_;
};

}  // namespace

void save_model(FileSystem& files, const std::string& given, const SavedModel& model) {
  const std::string directory = without_slashes(given);
  for (const auto& [name, unused] : model.assets)
    if (!is_asset_name(name)) invalid_argument("asset '{}': its name must be a plain file name", name);
  if (files.exists(directory)) check_replaceable(files, directory);
  replace_directory(files, directory, [&](const std::string& path) { ModelWriter(files, path).write(model); });
}

void check_model_directory(FileSystem& files, const std::string& given) {
  const std::string directory = without_slashes(given);
  if (files.exists(directory)) check_replaceable(files, directory);
  make_directories(files, parent_path(directory));
  const std::string temporary = temporary_directory(directory);
  files.make_directory(temporary);
  files.remove_directory(temporary);
}

bool is_saved_model(FileSystem& files, const std::string& path) { return files.exists(join_path(path, kInfoFile)); }

SavedModelInfo saved_model_info(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, kInfoFile);
  try {
    return decode_info(read_file(files, path, kMaxInfoBytes));
  } catch (const Error& error) {
    if (error.code() == Code::not_found)
      fail(Code::not_found, "'{}' is no saved model: it has no {}", directory, kInfoFile);
    throw error.within(fmt::format("'{}'", path));
  }
}

SavedModel load_model(FileSystem& files, const std::string& given, const LoadModelOptions& options) {
  const std::string directory = without_slashes(given);
  for (int again = kReadsOfReplaced;; --again) {
    ModelReader reader(files, directory);
    try {
      return reader.read(options);
    } catch (const Error&) {
      if (again == 0 || !reader.is_replaced()) throw;
    }
  }
}

}  // namespace troupe
