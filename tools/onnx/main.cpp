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
    R"(Checks, runs and converts ONNX models.

  troupe-onnx info FILE          what a model says of itself: opsets, inputs, outputs, ops, parameters
  troupe-onnx check FILE         imports it: lists ops that are not known, or names the node that is wrong
  troupe-onnx run FILE           runs it once, on the values of a folder
  troupe-onnx import FILE OUT    writes it as a graph of Troupe, with its weights as initial values
  troupe-onnx export IN OUT      writes a graph of Troupe as a model of opset 17
  troupe-onnx ops                the ops of ONNX that are read, and the ops of Troupe that are written and refused
  troupe-onnx test DIR...        runs the models of folders in the layout of ONNX's tests: model.onnx, and
                                 test_data_set_N/input_K.pb and output_K.pb; folders may be nested.
                                 --again: writes each model, and runs what is read back

Files of graphs are text if their name ends in .txt (one line for each node), otherwise serialised. A large model keeps
its tensors in a second file, FILE.data, beside it.

  troupe-onnx run m.onnx --inputs values --outputs results
  troupe-onnx import m.onnx m.graph
  troupe-onnx export m.graph again.onnx --outputs logits

Exit code: 0 success, 1 a failure, 2 wrong usage.)";

struct Options {
  std::string command;
  std::vector<std::string> paths;
  std::string inputs, outputs;
  bool again = false, json = false;
};

int end_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "troupe-onnx: cannot write all results to stdout: {}\n", std::strerror(errno));
  return 1;
}

constexpr const char* kCommands = "info, check, run, import, export, ops or test";

// What is wrong with the command's arguments; "" if nothing is.
std::string misuse(const Options& o) {
  const auto is = [&](const char* name) { return o.command == name; };
  if (o.command.empty()) return fmt::format("no command: pass {}", kCommands);
  const bool one = is("info") || is("check") || is("run"), two = is("import") || is("export");
  if (!one && !two && !is("test") && !is("ops"))
    return fmt::format("unknown command '{}': pass {}", o.command, kCommands);
  if (is("test") && o.paths.empty()) return "test takes at least one folder";
  if (is("ops") && !o.paths.empty()) return "ops takes no files";
  if (one && o.paths.size() != 1) return fmt::format("{} takes one file", o.command);
  if (two && o.paths.size() != 2) return fmt::format("{} takes two files: what to read and what to write", o.command);
  if ((!o.inputs.empty() || !o.outputs.empty()) && !is("run") && !is("export"))
    return fmt::format("{} takes neither --inputs nor --outputs", o.command);
  if (o.again && !is("test")) return fmt::format("{} does not take --again", o.command);
  if (is("export") && o.outputs.empty()) return "export needs --outputs: the tensors that the model returns";
  return "";
}

int run(const Options& o) {
  if (o.command == "info") return onnx_tool::info(o.paths[0], o.json);
  if (o.command == "check") return onnx_tool::check(o.paths[0], o.json);
  if (o.command == "run") return onnx_tool::run(o.paths[0], o.inputs, o.outputs, o.json);
  if (o.command == "import") return onnx_tool::import_model(o.paths[0], o.paths[1], o.json);
  if (o.command == "export") return onnx_tool::export_model(o.paths[0], o.paths[1], o.inputs, o.outputs, o.json);
  if (o.command == "ops") return onnx_tool::ops(o.json);
  return onnx_tool::test(o.paths, o.again, o.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CommandLine line("troupe-onnx", "COMMAND [PATH...] [options]", kDescription);
  line.add_argument(text_option("COMMAND", "", o.command, kCommands));
  line.add_arguments({"PATH", "", "", "Files, or for test folders", {}}, o.paths);
  line.add("Values",
           {text_option("--inputs", "DIR|NAMES", o.inputs,
                        "run: folder with NAME.pb or input_K.pb for each input. export: tensors that the model takes, "
                        "separated by commas (default: all placeholders)"),
            text_option("--outputs", "DIR|NAMES", o.outputs,
                        "run: folder for output_K.pb (default: values are only printed). export: tensors that the "
                        "model returns")});
  line.add("Tests", {flag("--again", o.again, "test: write each model, and run what is read back of it")});
  line.add("Output", {flag("--json", o.json, "Print one JSON object per line")});
  if (const auto exit = line.parse({argv + 1, argv + argc})) return end_output(finish(*exit));
  if (const std::string wrong = misuse(o); !wrong.empty()) return finish(line.wrong(wrong));
  try {
    return end_output(run(o));
  } catch (...) {
    fmt::print(stderr, "troupe-onnx: {}\n", current_error().message());
    return 1;
  }
}
