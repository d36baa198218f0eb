#include "troupe/actors/model/saved_model.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <troupe/actors/base/sha256.hpp>
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

// What may be replaced: nothing, an empty folder, or a saved model with nothing else in it.
void check_replaceable(FileSystem& files, const std::string& directory) {
  std::vector<DirectoryEntry> entries;
  try {
    entries = files.list(directory);
  } catch (const Error& error) {
    if (error.code() != Code::failed_precondition && error.code() != Code::not_found) throw;
    fail(Code::failed_precondition, "cannot save a model as '{}': it is a file; pass the name of a directory",
         directory);
  }
  for (const DirectoryEntry& entry : entries)
    if (entry.name != kModelFile && entry.name != kInfoFile && entry.name != kModelValues &&
        entry.name != kModelOptimizer && !(entry.name == kAssets && entry.is_directory))
      fail(Code::failed_precondition,
           "cannot save a model as '{}': the directory has '{}', which is of no saved model, and would be lost; pass "
           "another name, or move that",
           directory, entry.name);
}

// Gives the folder `from` the name `to`; returns where what had the name before is now, "" if nothing.
std::string put_in_place(FileSystem& files, const std::string& from, const std::string& to) {
  if (!files.exists(to)) {
    files.rename(from, to);
    return "";
  }
  try {
    files.exchange(from, to);
    return from;
  } catch (const Error& error) {
    if (error.code() != Code::unimplemented) throw;
  }
  const std::string old = fmt::format("{}.old-{}", to, temporary_suffix());
  files.rename(to, old);
  try {
    files.rename(from, to);
  } catch (const Error&) {
    files.rename(old, to);
    throw;
  }
  return old;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string temporary_for(const std::string& directory) {
  return fmt::format("{}.tmp-{}", directory, temporary_suffix());
}

void remove_quietly(FileSystem& files, const std::string& path) {
  try {
    remove_tree(files, path);
  } catch (const Error&) {  // left behind, where nothing reads it
  }
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
  make_directories(files, parent_path(directory));
  const std::string temporary = temporary_for(directory);
  std::string old;
  try {
    ModelWriter(files, temporary).write(model);
    old = put_in_place(files, temporary, directory);
  } catch (...) {
    remove_quietly(files, temporary);
    throw;
  }
  files.sync_directory(parent_path(directory));
  if (!old.empty()) remove_quietly(files, old);
}

void check_model_directory(FileSystem& files, const std::string& given) {
  const std::string directory = without_slashes(given);
  if (files.exists(directory)) check_replaceable(files, directory);
  make_directories(files, parent_path(directory));
  const std::string temporary = temporary_for(directory);
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
