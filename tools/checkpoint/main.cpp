// troupe-checkpoint: looks at checkpoints; changes nothing.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>

#include "tools/checkpoint/commands.hpp"
#include <troupe/messages/error.hpp>

namespace {

using namespace troupe;

constexpr const char* kDescription =
    R"(Looks at the checkpoints of training jobs and at saved models: which there are, whether they are whole, how two
checkpoints differ.
Changes nothing, and may be used while a job saves.

A checkpoint is a folder DIR/checkpoint-VERSION: a file of each shard, and a MANIFEST that is written
last. A folder without MANIFEST is what a save has left that did not come to its end, or one under way.
A saved model is a file that Model::save or troupe-mnist --save has written.

  troupe-checkpoint ls DIR                     the checkpoints of a directory
  troupe-checkpoint ls DIR/checkpoint-VERSION  one: where its job stands, and its tensors: shape, rows, shard, checksum
  troupe-checkpoint ls DIR/model.troupe        a saved model: its variables, and the hash of all their values
  troupe-checkpoint verify DIR                 reads every byte; names the file and the tensor that is damaged
  troupe-checkpoint diff A B                   which tensors differ, in how many elements, by how much at most

A and B are checkpoints, or directories, of which the newest is taken, or two saved models. It does not
matter into how many shards checkpoints were cut.

Exit code: 0 success (verify: all are whole; diff: all is equal), 1 damage, differences or any failure,
2 wrong usage.)";

// `code`, or 1 if stdout has not taken all that was printed.
int end_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "troupe-checkpoint: stdout did not take all results: {}\n", std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kDescription, "troupe-checkpoint");
  app.set_version_flag("--version", "troupe-checkpoint " TROUPE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  std::string first, second;
  bool json = false;
  app.add_flag("--json", json, "One JSON object per line");
  CLI::App& ls = *app.add_subcommand("ls", "Lists the checkpoints of a directory, or the tensors of one");
  ls.add_option("PATH", first, "Directory of checkpoints, the folder of one, or a saved model")->required();
  CLI::App& verify = *app.add_subcommand("verify", "Reads every byte and checks it");
  verify.add_option("PATH", first, "Directory of checkpoints, the folder of one, or a saved model")->required();
  CLI::App& diff = *app.add_subcommand("diff", "Compares two, bit by bit");
  diff.add_option("A", first, "Directory of checkpoints, or the folder of one")->required();
  diff.add_option("B", second, "Another")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return end_output(app.exit(done));
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  try {
    FileSystem& files = posix_file_system();
    if (ls) return end_output(checkpoints::list(files, first, json));
    if (verify) return end_output(checkpoints::verify(files, first, json));
    return end_output(checkpoints::diff(files, first, second, json));
  } catch (...) {
    fmt::print(stderr, "troupe-checkpoint: {}\n", current_error().message());
    return 1;
  }
}
