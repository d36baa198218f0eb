#include "troupe/actors/model/values.hpp"

#include <algorithm>
#include <cstring>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/graph/name_pattern.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/safetensors.hpp>

namespace troupe {
namespace {

std::vector<NamedTensor> listed(const Parameters& values) {
  std::vector<NamedTensor> out;
  for (const auto& [name, value] : values) out.push_back({name, value});
  return out;
}

[[noreturn]] void unknown_ending(const std::string& path) {
  invalid_argument("'{}' has no values: pass a saved model, a checkpoint, or a file that ends in .safetensors or .npz",
                   path);
}

bool is_any_of(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, name); });
}

bool is_chosen(const ValueChoice& choice, std::string_view name) {
  return (choice.only.empty() || is_any_of(choice.only, name)) && !is_any_of(choice.except, name);
}

Tensor transposed(const Tensor& value, const std::string& path, std::string_view called) {
  if (value.shape().rank() != 2 || value.dtype() == DType::string)
    invalid_argument("'{}': '{}' is {}{}, but a matrix of numbers is expected where it is to be transposed", path,
                     called, troupe::name(value.dtype()), value.shape().to_string());
  const std::int64_t rows = value.shape().dim(0), columns = value.shape().dim(1);
  const std::size_t size = size_of(value.dtype());
  Tensor out(value.dtype(), Shape{columns, rows});
  std::byte* to = out.mutable_raw();
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = 0; row < rows; ++row, to += size)
      std::memcpy(to, value.raw() + static_cast<std::size_t>(row * columns + column) * size, size);
  return out;
}

std::string renamed(const ValueChoice& choice, const std::string& name) {
  for (const auto& [from, to] : choice.prefixes)
    if (name.starts_with(from)) return to + name.substr(from.size());
  return name;
}

// A pattern that fits nothing is a mistake: the variables are called something else.
void check_patterns(const ValueChoice& choice, const std::vector<TensorInfo>& infos, const std::string& path) {
  for (const std::string& pattern : choice.only)
    if (std::ranges::none_of(infos, [&](const TensorInfo& info) { return matches(pattern, info.name); }))
      fail(Code::not_found, "'{}' has no value that '{}' matches; it has {}{}", path, pattern, infos.size(),
           infos.empty() ? " values" : fmt::format(", like '{}'", infos[0].name));
}

// The variables of a checkpoint, without the slots of optimizers.
class CheckpointValues {
 public:
  CheckpointValues(FileSystem& files, const std::string& folder) : checkpoint_(open_checkpoint(files, folder)) {
    for (const auto& [name, variable] : checkpoint_.variables())
      if (variable.kind == TensorKind::variable)
        infos_.push_back({.name = name, .dtype = variable.dtype, .shape = variable.shape});
  }
  const std::vector<TensorInfo>& tensors() const { return infos_; }
  Tensor read(const std::string& name) {
    if (checkpoint_.variable(name).listed)
      fail(Code::unimplemented,
           "'{}': '{}' is a table on demand, of which only the rows that were trained are stored; a model takes whole "
           "values: leave it out by `except`",
           checkpoint_.folder(), name);
    return checkpoint_.read(name);
  }

 private:
  Checkpoint checkpoint_;
  std::vector<TensorInfo> infos_;
};

// The checkpoint that a path names: one, or a directory with several, of which the newest intact one counts. "": none.
std::string checkpoint_at(FileSystem& files, const std::string& path) {
  if (files.exists(join_path(path, kManifestName))) return path;
  if (list_checkpoints(files, path).empty()) return {};
  const auto newest = newest_whole_checkpoint(files, path);
  if (!newest) fail(Code::data_loss, "'{}' has no checkpoint that is whole", path);
  return newest->folder();
}

template <class File>
Parameters read_chosen(File file, const std::string& path, const ValueChoice& choice) {
  check_patterns(choice, file.tensors(), path);
  Parameters out;
  for (const TensorInfo& info : file.tensors()) {
    if (!is_chosen(choice, info.name)) continue;
    if (const auto [at, added] = out.try_emplace(renamed(choice, info.name)); added)
      at->second = is_any_of(choice.transposed, info.name) ? transposed(file.read(info.name), path, info.name)
                                                           : file.read(info.name);
    else
      invalid_argument("'{}': '{}' and another value would both be called '{}'", path, info.name, at->first);
  }
  return out;
}

}  // namespace

void save_values(FileSystem& files, const std::string& path, const Parameters& values) {
  if (path.ends_with(".safetensors"))
    write_safetensors(files, path, listed(values));
  else if (path.ends_with(".npz"))
    write_npz(files, path, listed(values));
  else
    unknown_ending(path);
}

Parameters load_values(FileSystem& files, const std::string& path, const ValueChoice& choice) {
  const std::string shown = shown_path(path);
  const bool is_safetensors = shown.ends_with(".safetensors"), is_npz = shown.ends_with(".npz");
  // Elsewhere a file of values is taken for one without a question: the server may refuse to tell what is not there.
  const bool is_file = (is_safetensors || is_npz) && !scheme_of(path).empty();
  if (!is_file && is_saved_model(files, path)) return load_values(files, join_path(path, kModelValues), choice);
  if (is_safetensors) return read_chosen(SafetensorsFile(files, path), shown, choice);
  if (is_npz) return read_chosen(NpzFile(files, path), shown, choice);
  if (const std::string folder = checkpoint_at(files, path); !folder.empty())
    return read_chosen(CheckpointValues(files, folder), folder, choice);
  unknown_ending(path);
}

void replace_values(Parameters& values, const Parameters& by, const std::string& source) {
  for (const auto& [name, value] : by) {
    const auto known = values.find(name);
    if (known == values.end())
      fail(Code::not_found, "'{}' has a value for '{}', but the model has no such variable", source, name);
    const Tensor& now = known->second;
    if (now.dtype() != value.dtype() || now.shape() != value.shape())
      invalid_argument("'{}': '{}' is {}{}, the model expects {}{}", source, name, troupe::name(value.dtype()),
                       value.shape().to_string(), troupe::name(now.dtype()), now.shape().to_string());
  }
  for (const auto& [name, value] : by) values[name] = value;
}

}  // namespace troupe
