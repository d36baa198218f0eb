// troupe-onnx run: a model once, on values in files.
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/onnx/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe::onnx_tool {
namespace {

namespace fs = std::filesystem;

Feeds feeds_of(const OnnxModel& model, const std::string& folder) {
  Feeds feeds;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const OnnxValue& input = model.inputs[i];
    if (folder.empty())
      invalid_argument("the model has an input '{}': pass a folder with --inputs that has {}.pb or input_{}.pb",
                       input.name, input.name, i);
    const bool is_name = !input.name.empty() && input.name.find('/') == input.name.npos;
    fs::path path = fs::path(folder) / (input.name + ".pb");
    if (!is_name || !fs::exists(path)) path = fs::path(folder) / fmt::format("input_{}.pb", i);
    if (!fs::exists(path))
      fail(Code::not_found, "input '{}': there is neither {}.pb nor input_{}.pb in '{}'", input.name, input.name, i,
           folder);
    try {
      feeds.emplace_back(input.output, parse_onnx_value(read_file(path.string()), input.type));
    } catch (const Error& error) {
      throw error.within(path.string());
    }
  }
  return feeds;
}

}  // namespace

int run(const std::string& path, const std::string& inputs, const std::string& outputs, bool json) {
  const OnnxModel model = import_onnx(path, {.weights = OnnxImportOptions::Weights::constants});
  Outputs fetches;
  for (const OnnxValue& output : model.outputs) fetches.push_back(output.output);
  const std::vector<Tensor> found = Session(*model.graph).run(feeds_of(model, inputs), fetches);
  if (!outputs.empty()) fs::create_directories(outputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const OnnxValue& output = model.outputs[i];
    std::string file;
    if (!outputs.empty()) {
      file = (fs::path(outputs) / fmt::format("output_{}.pb", i)).string();
      write_file(file, to_onnx_value(found[i], output.name, output.type));
    }
    if (json)
      fmt::print("{}\n", json_text({{"event", "output"},
                                    {"name", output.name},
                                    {"type", to_string(output.type)},
                                    {"value", found[i].to_string()},
                                    {"file", file}}));
    else
      fmt::print("{}: {}{}\n", output.name, found[i].to_string(), file.empty() ? "" : " -> " + file);
  }
  return 0;
}

}  // namespace troupe::onnx_tool
