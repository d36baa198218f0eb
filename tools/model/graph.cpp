// troupe-model graph and ops.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/model/runner.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/formats/text.hpp>

namespace troupe::model_tool {
namespace {

// `action`: reads, writes or refuses; `format`: whose ops are read, or which one our ops are written to.
void print_ops(const Options& options, const char* action, std::string_view format, std::string_view domain,
               const std::vector<std::string>& ops) {
  for (const std::string& op : ops)
    if (options.json)
      fmt::print(
          "{}\n",
          json_text({{"event", "op"}, {"action", action}, {"format", format}, {"domain", domain}, {"name", op}}));
    else
      fmt::print("{:<8} {:<10} {}{}{}\n", action, format, domain, domain.empty() ? "" : ".", op);
}

}  // namespace

int graph(FileSystem& files, const Options& options) {
  const AnyModel model = read_any_model(files, options.paths[0]);
  const std::string text = to_text(*model.graph);
  if (options.json)
    fmt::print("{}\n", json_text({{"event", "graph"}, {"model", options.paths[0]}, {"text", text}}));
  else
    fmt::print("{}", text);
  return 0;
}

int ops(FileSystem&, const Options& options) {
  const OnnxOps onnx = onnx_ops();
  for (const auto& [domain, read] : onnx.read)
    print_ops(options, "reads", name(ModelFormat::onnx), domain == "ai.onnx" ? "" : domain, read);
  print_ops(options, "writes", name(ModelFormat::onnx), "", onnx.written);
  print_ops(options, "refuses", name(ModelFormat::onnx), "", onnx.refused);
  print_ops(options, "reads", name(ModelFormat::tensorflow), "", tensorflow_ops());
  print_ops(options, "writes", name(ModelFormat::tensorflow), "", tensorflow_written_ops());
  return 0;
}

}  // namespace troupe::model_tool
