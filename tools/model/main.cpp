// troupe-model: models of Troupe, TensorFlow and ONNX.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/model/commands.hpp"
#include <troupe/actors/cluster/membership_options.hpp>
#include <troupe/actors/cluster/op_libraries.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/command_line.hpp>

namespace {

using namespace troupe;

constexpr const char* kDescription =
    R"(Looks into models, runs them and converts them: directories of Troupe (Model::save), SavedModels of TensorFlow,
and files of ONNX. The format follows from what is there.

  troupe-model info resnet50.onnx            signatures with types, ops, size, work for one example
  troupe-model graph resnet50.onnx           its nodes as text, one a line
  troupe-model check exported                whether it runs here: lists all that is missing at once
  troupe-model run digits --inputs in.npz --outputs out.npz
                                             one signature on the tensors of a file, by the names of its inputs
  troupe-model run digits --inputs in.npz --outputs out.npz --batch 256 --cluster nodes.json
                                             likewise, in batches, on all devices of a cluster's workers
  troupe-model convert resnet50.onnx resnet  into a directory of Troupe
  troupe-model convert digits digits.onnx    into a file of ONNX
  troupe-model convert digits served/1 --to tensorflow
                                             into a SavedModel of version 1, for TensorFlow Serving
  troupe-model optimize digits fast          variables become constants, and passes for inference run once for all
  troupe-model bench fast --batch 8          latency and examples per second
  troupe-model publish trained models/digits --figure accuracy=0.98 --gate "accuracy >= stable - 0.005"
                                             as the next version of a directory that troupe-serve serves: tried out
                                             as the canary, unless the conditions do not hold
  troupe-model promote models/digits         the canary becomes stable: requests get it
  troupe-model rollback models/digits        the canary is rejected, or the version before is stable again
  troupe-model versions models/digits        what became of the versions, with their figures
  troupe-model ops                           ops of ONNX and TensorFlow that are read; ours that are written to them
  troupe-model test DIR...                   the models of folders in the layout of ONNX's tests: model.onnx, and
                                             test_data_set_N/input_K.pb and output_K.pb; folders may be nested

convert and optimize read back what they have written, run both models on the same inputs and compare the results. The
inputs are random, or those of --inputs: a file .npz or .safetensors with a tensor for each input. Dimensions that the
model leaves open are those of --batch in front, of --size elsewhere.

With --batch or --cluster, run cuts what --inputs names into batches along the first dimension: a file of tensors with
one row per example, or any data set that troupe-data reads, whose components are the inputs. Outputs come in its order.
Workers run troupe-node (troupe-launch --workers N -- troupe-node starts some, and prints the path of their cluster
file). The batches of a worker that is lost run on others; it is used again when it is back.

Models of ONNX have one signature, "predict". Where a model has several, --signature says which to run or to write;
without it, the only one counts, "predict" or "serving_default".

Exit code: 0 success, 1 a failure (check: it does not run; convert, optimize: the results differ), 2 wrong usage.)";

// Returns `code`, or 1 if stdout could not be written.
int end_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "troupe-model: cannot write all results to stdout: {}\n", std::strerror(errno));
  return 1;
}

struct Command {
  const char* name;
  std::size_t paths;  // kSome: at least one
  int (*run)(FileSystem&, const model_tool::Options&);
};
constexpr std::size_t kSome = 100;
constexpr Command kCommands[] = {
    {"info", 1, model_tool::info},        {"graph", 1, model_tool::graph},     {"check", 1, model_tool::check},
    {"run", 1, model_tool::run},          {"convert", 2, model_tool::convert}, {"optimize", 2, model_tool::optimize},
    {"bench", 1, model_tool::bench},      {"ops", 0, model_tool::ops},         {"test", kSome, model_tool::test},
    {"publish", 2, model_tool::publish},  {"promote", 1, model_tool::promote}, {"rollback", 1, model_tool::rollback},
    {"versions", 1, model_tool::versions}};
constexpr const char* kCommandNames =
    "info, graph, check, run, convert, optimize, bench, publish, promote, rollback, versions, ops or test";

const Command* find(const std::string& name) {
  for (const Command& command : kCommands)
    if (name == command.name) return &command;
  return nullptr;
}

// What is wrong with the command's arguments; "" if nothing is.
std::string misuse(const model_tool::Options& o) {
  if (o.command.empty()) return fmt::format("no command: pass {}", kCommandNames);
  const Command* command = find(o.command);
  if (!command) return fmt::format("unknown command '{}': pass {}", o.command, kCommandNames);
  if (command->paths == kSome) {
    if (o.paths.empty()) return fmt::format("{} takes at least one folder", o.command);
  } else if (o.paths.size() != command->paths) {
    constexpr const char* kTakes[] = {"no model", "one model", "two models: what to read and what to write"};
    return fmt::format("{} takes {}", o.command, kTakes[command->paths]);
  }
  if (!o.outputs.empty() && o.command != "run") return fmt::format("{} does not take --outputs", o.command);
  if (!o.cluster.empty() && o.command != "run") return fmt::format("{} does not take --cluster", o.command);
  if ((!o.figures.empty() || !o.gates.empty() || o.promote || o.any_signature) && o.command != "publish")
    return fmt::format("{} does not take --figure, --gate, --promote and --any-signature", o.command);
  if (!o.to.empty() && o.command != "convert") return fmt::format("{} does not take --to", o.command);
  if (o.again && o.command != "test") return fmt::format("{} does not take --again", o.command);
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  model_tool::Options o;
  CommandLine line("troupe-model", "COMMAND MODEL [MODEL] [options]", kDescription);
  line.add_argument(text_option("COMMAND", "", o.command, kCommandNames));
  line.add_arguments(
      {"MODEL",
       "",
       "",
       "A directory, or a file of ONNX; convert and optimize: what to read, what to write; publish: what, and "
       "the directory of versions; promote, rollback, versions: that directory; test: folders",
       {}},
      o.paths);
  line.add(
      "What runs",
      {text_option("--signature", "NAME", o.signature, "The signature of the model"),
       text_option("--inputs", "FILE", o.inputs, "A file .npz or .safetensors with the inputs"),
       text_option("--outputs", "FILE", o.outputs,
                   "run: a file of these kinds for the outputs; of batches, of any kind that troupe-data writes"),
       whole_option("--batch", "N", o.batch, 1, 1 << 20,
                    "run: examples of a batch (default with --cluster: as the model says, or 32); others: examples of "
                    "random inputs (default: 1; where results are compared, 2)"),
       whole_option("--size", "N", o.size, 1, 1 << 20, "Other open dimensions of random inputs"),
       whole_option("--threads", "N", o.threads, 1, 1024, "Threads of the CPU device"),
       op_library_option(o.op_libraries)});
  std::vector<CommandOption> cluster{
      text_option("--cluster", "FILE", o.cluster, "run: a cluster file, on whose workers (troupe-node) batches run"),
      seconds_option("--join-timeout", o.join_timeout, "Seconds to wait for the workers at the start"),
      seconds_option("--rejoin-timeout", o.rejoin_timeout, "Seconds to wait for a worker if all are lost"),
      seconds_option("--peer-timeout", o.network.peer_timeout,
                     "Seconds of silence after which a worker counts as lost")};
  for (CommandOption& option : security_options(o.network)) cluster.push_back(std::move(option));
  line.add("Workers of a cluster", std::move(cluster));
  line.add("What is written",
           {choice_option<std::string>(
                "--to", o.to, {{"troupe", "troupe"}, {"tensorflow", "tensorflow"}, {"onnx", "onnx"}},
                "convert: the format; without it, a name that ends in .onnx is a file of ONNX, another a "
                "directory of Troupe"),
            positive_option("--tolerance", "X", o.tolerance,
                            "Allowed |a - b| / (1 + |b|) between results of the two models")});
  line.add("Tests", {flag("--again", o.again, "test: write each model, and run what is read back of it")});
  line.add(
      "Publishing",
      {{"--figure", "NAME=X", "", "A figure of the model, for conditions and to be kept with its version",
        [&](const std::string& text) {
          const std::size_t equals = text.find('=');
          if (equals == 0 || equals == std::string::npos) invalid_argument("expected NAME=X, not '{}'", text);
          o.figures[text.substr(0, equals)] = parse_number(text.substr(equals + 1), -1e300, 1e300);
        }},
       {"--gate", "CONDITION", "",
        "What a figure must be for the model to be published: \"accuracy >= 0.95\", or \"loss <= stable + 0.01\"",
        [&](const std::string& text) { o.gates.push_back(text); }},
       number_option("--most-changed", "SHARE", o.most_changed, 0, 1,
                     "publish: of the answers to recorded requests, how many may be others than the stable "
                     "version's"),
       flag("--promote", o.promote, "Stable at once, not the canary"),
       flag("--any-signature", o.any_signature, "Also a model that lacks what clients of the stable version use")});
  line.add("Measuring", {positive_option("--seconds", "S", o.seconds, "bench: how long")});
  line.add("Output", {flag("--json", o.json, "Print one JSON object per line")});
  if (const auto exit = line.parse({argv + 1, argv + argc})) return end_output(finish(*exit));
  if (const std::string wrong = misuse(o); !wrong.empty()) return finish(line.wrong(wrong));
  try {
    for (const std::string& library : o.op_libraries) load_op_library(library);
    return end_output(find(o.command)->run(file_system_of(o.paths.empty() ? "" : o.paths[0]), o));
  } catch (...) {
    fmt::print(stderr, "troupe-model: {}\n", current_error().message());
    return 1;
  }
}
