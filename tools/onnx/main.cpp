// troupe-onnx: ONNX models.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/onnx/commands.hpp"
#include <troupe/messages/command_line.hpp>

namespace {

using namespace troupe;

constexpr const char* kDescription =
    R"(Imports, checks and runs ONNX models.

  troupe-onnx test DIR...   runs the models of folders in the layout of ONNX's tests: model.onnx, and
                            test_data_set_N/input_K.pb and output_K.pb; folders may be nested

Exit code: 0 success, 1 a failure, 2 wrong usage.)";

int end_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "troupe-onnx: cannot write all results to stdout: {}\n", std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string command;
  std::vector<std::string> paths;
  bool json = false;
  CommandLine line("troupe-onnx", "test DIR... [--json]", kDescription);
  line.add_argument(text_option("COMMAND", "", command, "test"));
  line.add_arguments({"PATH", "", "", "Folder of tests", {}}, paths);
  line.add("Output", {flag("--json", json, "Print one JSON object per line")});
  if (const auto exit = line.parse({argv + 1, argv + argc})) return end_output(finish(*exit));
  if (command != "test")
    return finish(line.wrong(command.empty() ? "no command: pass test"
                                             : fmt::format("unknown command '{}': pass test", command)));
  if (paths.empty()) return finish(line.wrong("test takes at least one folder"));
  try {
    return end_output(onnx_tool::test(paths, json));
  } catch (...) {
    fmt::print(stderr, "troupe-onnx: {}\n", current_error().message());
    return 1;
  }
}
