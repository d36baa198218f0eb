// troupe-onnx check, info and ops.
#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/onnx/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe::onnx_tool {
namespace {

using Json = nlohmann::json;

Json json_of(const std::vector<OnnxValue>& values) {
  Json out = Json::array();
  for (const OnnxValue& value : values)
    out.push_back({{"name", value.name}, {"type", to_string(value.type)}, {"tensor", value.output.name()}});
  return out;
}

Json json_of(const std::vector<std::pair<std::string, std::string>>& values) {
  Json out = Json::array();
  for (const auto& [name, type] : values) out.push_back({{"name", name}, {"type", type}});
  return out;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Code::not_found, "cannot open '{}'", path);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) fail(Code::unavailable, "cannot read '{}'", path);
  return bytes;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) fail(Code::unavailable, "cannot write '{}'", path);
}

int check(const std::string& path, bool json) {
  const OnnxModel model = import_onnx(path);
  if (json) {
    fmt::print("{}\n", json_text({{"event", "check"},
                                  {"file", path},
                                  {"opset", model.opset},
                                  {"nodes", model.graph->size()},
                                  {"variables", model.variables.size()},
                                  {"inputs", json_of(model.inputs)},
                                  {"outputs", json_of(model.outputs)}}));
    return 0;
  }
  fmt::print("{}: a valid model of opset {}; as a graph: {} nodes, {} variables\n", path, model.opset,
             model.graph->size(), model.variables.size());
  for (const OnnxValue& input : model.inputs) fmt::print("input  {} {}\n", input.name, to_string(input.type));
  for (const OnnxValue& output : model.outputs) fmt::print("output {} {}\n", output.name, to_string(output.type));
  return 0;
}

int info(const std::string& path, bool json) {
  OnnxInfo info;
  try {
    info = onnx_info(read_file(path));
  } catch (const Error& error) {
    throw error.code() == Code::not_found ? error : error.within(path);
  }
  if (json) {
    fmt::print("{}\n", json_text({{"event", "info"},
                                  {"file", path},
                                  {"producer", info.producer},
                                  {"ir_version", info.ir_version},
                                  {"opsets", info.opsets},
                                  {"inputs", json_of(info.inputs)},
                                  {"outputs", json_of(info.outputs)},
                                  {"ops", info.ops},
                                  {"unknown_ops", info.unknown_ops},
                                  {"functions", info.functions},
                                  {"initializers", info.initializers},
                                  {"parameters", info.parameters},
                                  {"parameter_bytes", info.parameter_bytes}}));
    return 0;
  }
  fmt::print("producer    {}\n", info.producer.empty() ? "not named" : info.producer);
  fmt::print("IR version  {}\n", info.ir_version);
  for (const auto& [domain, version] : info.opsets) fmt::print("opset       {} {}\n", domain, version);
  for (const auto& [name, type] : info.inputs) fmt::print("input       {} {}\n", name, type);
  for (const auto& [name, type] : info.outputs) fmt::print("output      {} {}\n", name, type);
  fmt::print("parameters  {} in {} tensors, {} bytes\n", info.parameters, info.initializers, info.parameter_bytes);
  if (info.functions > 0) fmt::print("functions   {}\n", info.functions);
  for (const auto& [op, count] : info.ops) fmt::print("op          {} {}\n", op, count);
  for (const std::string& op : info.unknown_ops) fmt::print("unknown op  {}\n", op);
  return 0;
}

int ops(bool json) {
  const OnnxOps known = onnx_ops();
  for (const auto& [domain, ops] : known.read)
    for (const std::string& op : ops)
      if (json)
        fmt::print("{}\n", json_text({{"event", "op"}, {"domain", domain}, {"name", op}, {"read", true}}));
      else
        fmt::print("reads    {}{}\n", domain == "ai.onnx" ? "" : domain + ".", op);
  for (const auto& [ops, written] : {std::pair{&known.written, true}, {&known.refused, false}})
    for (const std::string& op : *ops)
      if (json)
        fmt::print("{}\n", json_text({{"event", "op"}, {"domain", "troupe"}, {"name", op}, {"written", written}}));
      else
        fmt::print("{} {}\n", written ? "writes  " : "refuses ", op);
  return 0;
}

}  // namespace troupe::onnx_tool
