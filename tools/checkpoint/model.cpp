// The commands of troupe-checkpoint for saved models.
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/messages/bytes_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::checkpoints {
namespace {

constexpr const char* kModelName = "model.troupe";  // the file name of troupe-mnist --save

std::uint64_t bytes_of(const Parameters& parameters) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : parameters) sum += value.num_bytes();
  return sum;
}

}  // namespace

std::optional<std::string> saved_model_at(FileSystem& files, const std::string& path) {
  std::error_code ignored;  // the search for checkpoints reports missing files
  if (std::filesystem::is_regular_file(path, ignored)) return path;
  const std::string inside = join_path(path, kModelName);
  if (!std::filesystem::is_regular_file(inside, ignored)) return std::nullopt;
  if (files.exists(join_path(path, kManifestName)) || !list_checkpoints(files, path).empty()) return std::nullopt;
  return inside;
}

int list_model(const std::string& file, bool json) {
  const Parameters parameters = load_parameters(file);
  std::int64_t elements = 0;
  for (const auto& [name, value] : parameters) elements += value.num_elements();
  const nlohmann::json model = {{"event", "model"},
                                {"file", file},
                                {"tensors", parameters.size()},
                                {"elements", elements},
                                {"bytes", bytes_of(parameters)},
                                {"params_sha256", params_sha256(parameters)}};
  fmt::print("{}\n", json ? json_text(model)
                          : fmt::format("model {}: {} tensors, {} elements, {}\nparameters {}", file, parameters.size(),
                                        elements, bytes_text(bytes_of(parameters)), params_sha256(parameters)));
  for (const auto& [variable, value] : parameters) {
    const nlohmann::json line = {{"event", "tensor"},
                                 {"name", variable},
                                 {"kind", "variable"},
                                 {"dtype", name(value.dtype())},
                                 {"shape", value.shape().dims()},
                                 {"bytes", value.num_bytes()}};
    fmt::print("{}\n", json ? json_text(line)
                            : fmt::format("variable {}  {}{}, {}", variable, name(value.dtype()),
                                          value.shape().to_string(), bytes_text(value.num_bytes())));
  }
  return 0;
}

int verify_model(const std::string& file, bool json) {
  nlohmann::json line = {{"event", "verify"}, {"folder", file}};
  std::string text;
  bool whole = true;
  try {
    const std::uint64_t bytes = bytes_of(load_parameters(file));
    line.update({{"state", "whole"}, {"bytes", bytes}});
    text = fmt::format("{}: whole: {} read", file, bytes_text(bytes));
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    line.update({{"state", "damaged"}, {"error", error.message()}});
    text = fmt::format("{}: damaged: {}", file, error.message());
    whole = false;
  }
  fmt::print("{}\n", json ? json_text(line) : text);
  return whole ? 0 : 1;
}

}  // namespace troupe::checkpoints
