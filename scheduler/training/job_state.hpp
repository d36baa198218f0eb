// What a checkpoint keeps of a job, beside what its shards keep: where it stands, and the figures of the epoch under
// way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/scheduler/training/commit_log.hpp>

namespace troupe {

struct JobState {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;  // the first that is not complete; synchronous: the version of the shards
  double loss_sum = 0;     // of the complete steps of the epoch, like the two below
  std::uint64_t correct = 0;
  std::uint64_t examples = 0;
  std::int64_t job_ns = 0;    // since training began
  std::int64_t epoch_ns = 0;  // since the epoch began
  CommitLog commits;          // of the steps before `step`

  // One "name value" a line; doubles as their bits; the commits last.
  std::string to_string() const;
  // Throws data_loss for text that to_string() does not make.
  static JobState parse(std::string_view text);
};

}  // namespace troupe
