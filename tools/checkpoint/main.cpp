// troupe-checkpoint: inspects checkpoints; read-only.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/cluster/membership_options.hpp>
#include <troupe/actors/cluster/op_libraries.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/command_line.hpp>

namespace {

using namespace troupe;

constexpr const char* kDescription =
    R"(Lists, verifies and compares checkpoints of training jobs and saved models. Read-only; safe while a job saves.

A checkpoint is a folder DIR/checkpoint-VERSION with one file per shard and a MANIFEST, which is written last. A
folder without MANIFEST is left over from an interrupted save, or from one in progress. A saved model is a directory
with model.pb, values.safetensors and metadata.json, written by Model::save or troupe-mnist --save.

  troupe-checkpoint ls DIR                     the checkpoints of a directory
  troupe-checkpoint ls DIR/checkpoint-VERSION  one checkpoint: the state of its job, and its tensors
  troupe-checkpoint ls MODEL                   a saved model: signatures, optimizer, variables, assets, hash of values
  troupe-checkpoint verify DIR                 reads every byte; names the damaged file and tensor
  troupe-checkpoint diff A B                   which tensors differ, in how many elements, and the maximum difference

A and B are checkpoints, directories (their newest checkpoint), or two saved models. They may have different numbers of
shards.

Exit code: 0 success (verify: all are whole; diff: all are equal), 1 damage, differences or a failure, 2 wrong usage.)";

// Returns `code`, or 1 if stdout could not be written.
int end_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "troupe-checkpoint: cannot write all results to stdout: {}\n", std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string command;
  std::vector<std::string> paths, op_libraries;
  bool json = false;
  CommandLine line("troupe-checkpoint", "ls PATH | verify PATH | diff A B [--json]", kDescription);
  line.add_argument(text_option("COMMAND", "", command, "ls, verify or diff"));
  line.add_arguments(
      {"PATH", "", "", "Directory of checkpoints, the folder of one, or a saved model; may be s3://BUCKET/...", {}},
      paths);
  line.add("Output", {flag("--json", json, "Print one JSON object per line")});
  line.add("Models", {op_library_option(op_libraries)});
  if (const auto exit = line.parse({argv + 1, argv + argc})) return end_output(finish(*exit));
  if (command != "ls" && command != "verify" && command != "diff")
    return finish(line.wrong(command.empty() ? "no command: pass ls, verify or diff"
                                             : fmt::format("unknown command '{}': pass ls, verify or diff", command)));
  if (const std::size_t wanted = command == "diff" ? 2 : 1; paths.size() != wanted)
    return finish(line.wrong(fmt::format("{} takes {}", command, wanted == 2 ? "two paths" : "one path")));
  try {
    for (const std::string& library : op_libraries) load_op_library(library);
    FileSystem& files = all_file_systems();
    if (command == "ls") return end_output(checkpoints::list(files, paths[0], json));
    if (command == "verify") return end_output(checkpoints::verify(files, paths[0], json));
    return end_output(checkpoints::diff(files, paths[0], paths[1], json));
  } catch (...) {
    fmt::print(stderr, "troupe-checkpoint: {}\n", current_error().message());
    return 1;
  }
}
