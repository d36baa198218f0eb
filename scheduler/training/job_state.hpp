// The state of a job in a checkpoint, besides that of its shards: its progress, and the figures of the current epoch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/scheduler/training/commit_log.hpp>

namespace troupe {

struct JobState {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;  // the first incomplete one; synchronous: the version of the shards
  double loss_sum = 0;     // over the epoch's complete steps, like the two below
  std::uint64_t correct = 0;
  std::uint64_t examples = 0;
  std::int64_t job_ns = 0;    // since training began
  std::int64_t epoch_ns = 0;  // since the epoch began
  CommitLog commits;          // of the steps before `step`

  // One "name value" pair per line, doubles as their bits; the commits last.
  std::string to_string() const;
  // Parses the output of to_string(). Throws data_loss for any other text.
  static JobState parse(std::string_view text);
};

}  // namespace troupe
