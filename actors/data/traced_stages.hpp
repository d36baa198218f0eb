// The stages of a pipeline in a trace: within the thread's innermost slice a slice for each that the thread works for,
// one after the other, as long as all of its work for that stage while this lives.
//
// Elements of a batch take microseconds, and stages take turns: slices of their own would be too many to be seen.
#pragma once

#include <cstdint>
#include <optional>

#include <troupe/scheduler/data/pipeline_statistics.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

// Does nothing unless the thread is in a slice.
class TracedStages {
 public:
  TracedStages() {
    if (TraceSlice::current()) [[unlikely]]
      begin();
  }
  ~TracedStages() {
    if (times_) end();
  }
  TracedStages(const TracedStages&) = delete;
  TracedStages& operator=(const TracedStages&) = delete;

 private:
  void begin();
  void end();
  std::int64_t began_ns_ = 0;
  std::optional<StageTimes> times_;
};

}  // namespace troupe
