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

SavedModelFile hash_of_file(ReadableFile& file) {
  const std::uint64_t size = file.size();
  Sha256 hash;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(size, kHashedAtOnce));
  for (std::uint64_t at = 0; at < size; at += buffer.size()) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), size - at));
    file.read(at, part);
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
  void remember(const std::string& name) { info_.files[name] = hash_of_file(*files_.open(path(name))); }

  FileSystem& files_;
  std::string directory_;
  SavedModelInfo info_;
};

// Lets only what a saved model has be replaced.
void check_replaceable(FileSystem& files, const std::string& directory) {
  check_entries(files, directory, {kModelFile, kInfoFile, kModelValues, kModelOptimizer, kAssets});
}

void check_asset_bytes(const SavedModel& model) {
  std::uint64_t bytes = 0;
  for (const auto& [name, content] : model.assets) bytes += content.size();
  if (bytes > kMaxAssetBytes) invalid_argument("the assets have {} bytes; the limit is {}", bytes, kMaxAssetBytes);
}

class ModelReader {
 public:
  ModelReader(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)), info_(saved_model_info(files, directory_)) {}

  SavedModel read(const LoadModelOptions& options) {
    check_sizes();
    refuse_links();
    SavedModel model;
    try {
      model = decode_model(whole(kModelFile), options);
    } catch (const Error& error) {
      throw error.within(fmt::format("'{}'", path(kModelFile)));
    }
    model.values = tensors(kModelValues, options);
    const bool values_verified = verified_;
    if (info_.files.contains(kModelOptimizer)) model.optimizer = tensors(kModelOptimizer, options);
    for (const auto& [name, unused] : info_.files)
      if (name.starts_with(kAssetPrefix)) model.assets[name.substr(kAssetPrefix.size())] = whole(name);
    if (values_verified && params_sha256(model.values) != info_.params_sha256)
      fail(Code::data_loss, "'{}' and '{}' are of two models: the hash of the parameters differs", path(kInfoFile),
           path(kModelValues));
    return model;
  }

  // Whether all that was read has the hashes of metadata.json, so that it is of one model.
  bool verified() const { return verified_; }
  // Whether another model has taken the name since: then what was read may be of both.
  bool is_replaced() { return encode_info(saved_model_info(files_, directory_)) != encode_info(info_); }

 private:
  std::string path(const std::string& name) const { return join_path(directory_, name); }

  void check_sizes() const {
    std::uint64_t assets = 0;
    for (const auto& [name, file] : info_.files) {
      if (name == kModelFile && file.bytes > kMaxModelBytes)
        fail(Code::resource_exhausted, "'{}' has {} bytes; the limit is {}", path(name), file.bytes, kMaxModelBytes);
      if (!name.starts_with(kAssetPrefix)) continue;
      if (file.bytes > kMaxAssetBytes - assets)
        fail(Code::resource_exhausted, "the assets of '{}' have more than {} bytes", directory_, kMaxAssetBytes);
      assets += file.bytes;
    }
  }

  // A link could lead to any file of the machine.
  void refuse_links() {
    refuse_links(directory_);
    const auto is_asset = [](const auto& file) { return file.first.starts_with(kAssetPrefix); };
    if (std::ranges::any_of(info_.files, is_asset)) refuse_links(path(kAssets));
  }
  void refuse_links(const std::string& folder) {
    std::vector<DirectoryEntry> entries;
    try {
      entries = files_.list(folder);
    } catch (const Error& error) {
      if (error.code() != Code::unimplemented && error.code() != Code::not_found) throw;
      return;  // a web server has no links to show; a folder that is missing is found by its files
    }
    for (const DirectoryEntry& entry : entries)
      if (entry.is_link)
        fail(Code::data_loss, "'{}' is a symbolic link: the files of a saved model lie in its directory",
             join_path(folder, entry.name));
  }

  std::unique_ptr<ReadableFile> opened(const std::string& name) {
    const auto expected = info_.files.find(name);
    if (expected == info_.files.end())
      fail(Code::data_loss, "'{}' does not list '{}', which each saved model has", path(kInfoFile), name);
    std::unique_ptr<ReadableFile> file;
    try {
      file = files_.open(path(name));
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
      fail(Code::not_found, "the saved model '{}' is incomplete: it has no '{}'; copy the whole directory again",
           directory_, name);
    }
    if (file->size() != expected->second.bytes)
      fail(Code::data_loss, "'{}' is damaged: it has {} bytes, and had {} when it was saved", path(name), file->size(),
           expected->second.bytes);
    return file;
  }
  void verify(const std::string& name, ReadableFile& file) const {
    const std::string found = hash_of_file(file).sha256, &expected = info_.files.at(name).sha256;
    if (found != expected)
      fail(Code::data_loss, "'{}' is damaged: its SHA-256 is {}, and was {} when it was saved", path(name), found,
           expected);
  }

  std::string whole(const std::string& name) {
    const std::unique_ptr<ReadableFile> file = opened(name);
    verify(name, *file);
    std::string bytes(file->size(), '\0');
    file->read(0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  std::map<std::string, Tensor> tensors(const std::string& name, const LoadModelOptions& options) {
    std::unique_ptr<ReadableFile> opened_file = opened(name);
    const bool mapped = options.map_values && opened_file->map();
    const bool verifies = options.verify_values.value_or(!mapped);
    if (verifies) verify(name, *opened_file);
    verified_ = verified_ && verifies;
    SafetensorsFile file(std::move(opened_file), path(name));
    if (mapped) file.map();
    std::map<std::string, Tensor> out;
    for (const TensorInfo& info : file.tensors()) out[info.name] = file.read(info.name);
    return out;
  }

  FileSystem& files_;
  std::string directory_;
  SavedModelInfo info_;
  bool verified_ = true;
};

}  // namespace

void save_model(FileSystem& files, const std::string& given, const SavedModel& model) {
  const std::string directory = without_slashes(given);
  for (const auto& [name, unused] : model.assets)
    if (!is_asset_name(name)) invalid_argument("asset '{}': its name must be a plain file name", name);
  check_asset_bytes(model);
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

SavedModel read_model(FileSystem& files, const std::string& given, const LoadModelOptions& options) {
  const std::string directory = without_slashes(given);
  for (int again = kReadsOfReplaced; again >= 0; --again) {
    ModelReader reader(files, directory);
    try {
      SavedModel model = reader.read(options);
      if (reader.verified() || !reader.is_replaced()) return model;
    } catch (const Error&) {
      if (again == 0 || !reader.is_replaced()) throw;
    }
  }
  fail(Code::unavailable, "the saved model '{}' was replaced {} times while it was read: try again", directory,
       kReadsOfReplaced + 1);
}

}  // namespace troupe
