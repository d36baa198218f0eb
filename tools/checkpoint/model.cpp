// The commands of troupe-checkpoint for saved models.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/messages/bytes_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::checkpoints {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

std::uint64_t bytes_of(const Tensors& tensors) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : tensors) sum += value.num_bytes();
  return sum;
}

std::string type_text(DType dtype, const Shape& shape) { return std::string(name(dtype)) + shape.to_string(); }

// Prints a line: as JSON, or as text.
class Lines {
 public:
  explicit Lines(bool json) : json_(json) {}
  void print(const json& line, const std::string& text) const { fmt::print("{}\n", json_ ? json_text(line) : text); }

 private:
  bool json_;
};

void print_model(const Lines& lines, const std::string& path, const SavedModelInfo& info, const SavedModel& model) {
  std::int64_t elements = 0;
  for (const auto& [name, value] : model.values) elements += value.num_elements();
  const std::uint64_t bytes = bytes_of(model.values);
  lines.print({{"event", "model"},
               {"folder", path},
               {"troupe", info.troupe},
               {"saved", info.saved},
               {"layers", model.network.has_value()},
               {"graph", model.graph != nullptr},
               {"tensors", model.values.size()},
               {"elements", elements},
               {"bytes", bytes},
               {"params_sha256", info.params_sha256},
               {"metadata", model.metadata}},
              fmt::format("model {}: {} tensors, {} elements, {}{}{}\nparameters {}\nsaved {} by Troupe {}", path,
                          model.values.size(), elements, bytes_text(bytes), model.network ? ", layers" : "",
                          model.graph ? ", a graph" : "", info.params_sha256, info.saved, info.troupe));
}

// "label f32[?,10]" of each.
std::string specs_text(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  std::string out;
  for (const auto& [name, spec] : specs)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, type_text(spec.dtype, spec.shape));
  return out;
}

// ": what it does", or nothing.
std::string described(const std::string& description) { return description.empty() ? "" : ": " + description; }

// A line for each that has a description.
std::string descriptions_text(const char* kind, const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  std::string out;
  for (const auto& [name, spec] : specs)
    if (!spec.description.empty()) out += fmt::format("\n  {} {}: {}", kind, name, spec.description);
  return out;
}

json specs_json(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  json out = json::object();
  for (const auto& [name, spec] : specs)
    out[name] = {{"tensor", spec.tensor},
                 {"dtype", troupe::name(spec.dtype)},
                 {"shape", spec.shape.to_string()},
                 {"description", spec.description}};
  return out;
}

void print_parts(const Lines& lines, const SavedModel& model) {
  for (const auto& [name, signature] : model.signatures)
    lines.print(
        {{"event", "signature"},
         {"name", name},
         {"description", signature.description},
         {"inputs", specs_json(signature.inputs)},
         {"outputs", specs_json(signature.outputs)}},
        fmt::format("signature {}: {} -> {}{}{}{}", name, specs_text(signature.inputs), specs_text(signature.outputs),
                    described(signature.description), descriptions_text("input", signature.inputs),
                    descriptions_text("output", signature.outputs)));
  for (const auto& [name, text] : model.compiled)
    lines.print({{"event", "compiled"}, {"name", name}, {"text", text}}, fmt::format("{} {}", name, text));
  for (const auto& [name, content] : model.assets)
    lines.print({{"event", "asset"}, {"name", name}, {"bytes", content.size()}},
                fmt::format("asset {}, {}", name, bytes_text(content.size())));
}

void print_values(const Lines& lines, const char* kind, const Tensors& tensors) {
  for (const auto& [name, value] : tensors)
    lines.print({{"event", "tensor"},
                 {"name", name},
                 {"kind", kind},
                 {"dtype", troupe::name(value.dtype())},
                 {"shape", value.shape().dims()},
                 {"bytes", value.num_bytes()}},
                fmt::format("{} {}  {}, {}", kind, name, type_text(value.dtype(), value.shape()),
                            bytes_text(value.num_bytes())));
}

}  // namespace

int list_model(FileSystem& files, const std::string& path, bool json) {
  const SavedModelInfo info = saved_model_info(files, path);
  const SavedModel model = read_model(files, path);
  const Lines lines(json);
  print_model(lines, path, info, model);
  print_parts(lines, model);
  print_values(lines, "variable", model.values);
  print_values(lines, "slot", model.optimizer);
  return 0;
}

int verify_model(FileSystem& files, const std::string& path, bool json) {
  nlohmann::json line = {{"event", "verify"}, {"folder", path}};
  std::string text;
  bool whole = true;
  try {
    read_model(files, path, {.map_values = false, .verify_values = true});
    std::uint64_t bytes = 0;
    for (const auto& [name, file] : saved_model_info(files, path).files) bytes += file.bytes;
    line.update({{"state", "whole"}, {"bytes", bytes}});
    text = fmt::format("{}: whole: {} read", path, bytes_text(bytes));
  } catch (const Error& error) {
    if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
    line.update({{"state", "damaged"}, {"error", error.message()}});
    text = fmt::format("{}: damaged: {}", path, error.message());
    whole = false;
  }
  Lines(json).print(line, text);
  return whole ? 0 : 1;
}

}  // namespace troupe::checkpoints
