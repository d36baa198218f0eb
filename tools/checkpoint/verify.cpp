// troupe-checkpoint verify: reads every byte of the checkpoints of a directory, or of one.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/messages/bytes_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::checkpoints {

int verify(FileSystem& files, const std::string& path, bool json) {
  if (is_saved_model(files, path)) return verify_model(files, path, json);
  int whole = 0, damaged = 0;
  for (const ListedCheckpoint& listed : checkpoints_at(files, path)) {
    std::string_view state = "incomplete";
    Error error;
    std::uint64_t bytes = 0;
    try {
      Checkpoint checkpoint = open_checkpoint(files, listed.folder);
      checkpoint.verify();
      for (const ShardManifest& shard : checkpoint.manifest().shards) bytes += shard.bytes;
      state = "whole";
      ++whole;
    } catch (const Error& e) {
      if (removed_meanwhile(files, listed)) continue;
      error = e;
      if (listed.committed) state = "damaged";
      damaged += listed.committed ? 1 : 0;
    }
    nlohmann::json line = {{"event", "verify"}, {"folder", listed.folder}, {"state", state}};
    error ? line["error"] = error.message() : line["bytes"] = bytes;
    const std::string text = error ? error.message() : bytes_text(bytes) + " read";
    fmt::print("{}\n", json ? json_text(line) : fmt::format("{}: {}: {}", listed.folder, state, text));
  }
  return whole > 0 && damaged == 0 ? 0 : 1;
}

}  // namespace troupe::checkpoints
