// The gradients in every version of a shard's parameters, in a file with one JSON object per line, by version:
//   {"version":8,"applied":[{"worker":1,"step":7,"slot":0,"gradients":2},...],
//    "dropped":[{...,"why":"duplicate"}],"more_dropped":3}
// `dropped`, and the number not listed there, appear only if not empty. Gradients that arrive for a version after its
// line was written add another line of that version, without `applied`.
//
// Lines are buffered; flush() makes them durable. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/scheduler/training/provenance.hpp>

namespace troupe {

class ProvenanceLog {
 public:
  // Continues the file of this shard in `directory` after `version`, the shard's current one; later lines are
  // discarded. Throws FileSystem's errors, and data_loss for a malformed line.
  ProvenanceLog(FileSystem& files, const std::string& directory, int shard, std::uint64_t version);

  void append(const std::vector<Provenance>& versions);
  void flush();

  static std::string path(const std::string& directory, int shard);  // "DIR/provenance-ps-00000.jsonl"

 private:
  void write();

  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
};

}  // namespace troupe
