// The state of a job in a checkpoint, besides that of its shards: its progress, and the figures of the current epoch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/messages/data_place.hpp>
#include <troupe/messages/named_sums.hpp>
#include <troupe/scheduler/training/commit_log.hpp>
#include <troupe/scheduler/training/epoch_control.hpp>

namespace troupe {

struct JobState {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;            // the first incomplete one
  std::uint64_t epoch_step = 0;      // the first of the epoch
  std::uint64_t examples = 0;        // of the epoch's complete steps
  std::int64_t job_ns = 0;           // since training began
  std::int64_t epoch_ns = 0;         // since the epoch began
  NamedSums sums;                    // over the epoch's complete steps
  std::vector<EpochRecord> history;  // of earlier epochs, in jobs that decide by them
  DataPlace place;                   // in the training data, at or before `step`; empty: none
  CommitLog commits;                 // of the turns before `step`

  // One "name value" pair per line, then the sums, the history, the place if there is one, and the commits.
  std::string to_string() const;
  // Parses the output of to_string(). Throws data_loss for any other text.
  static JobState parse(std::string_view text);
};

}  // namespace troupe
