// What went into every version of a shard's parameters, in a file of one JSON object a line, in the order of the
// versions:
//   {"version":8,"applied":[{"worker":1,"step":7,"slot":0,"gradients":2},...],"dropped":[{...,"why":"duplicate"}],"more_dropped":3}
// `dropped`, and the count of what is not listed there, stand only where there is something. What comes for a version
// after its line has been written makes another line of that version, without `applied`.
//
// Lines are buffered; flush() writes them, and has them survive a crash. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/scheduler/training/provenance.hpp>

namespace troupe {

class ProvenanceLog {
 public:
  // Goes on with what the file of this shard in `directory` has up to `version`, of which the shard is: later versions
  // are made anew. Throws as FileSystem, and data_loss for a line that is none.
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
