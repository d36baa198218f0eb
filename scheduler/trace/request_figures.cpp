#include "troupe/scheduler/trace/request_figures.hpp"

#include <algorithm>
#include <limits>

namespace troupe {
namespace {

std::int32_t whole_microseconds(Nanoseconds time) {
  constexpr Nanoseconds kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::clamp<Nanoseconds>(time / kMicrosecond, 0, kMost));
}

}  // namespace

void RequestFigures::write_to(TraceEvent& event) const {
  event.arrow = trace_id[0];
  event.bytes = trace_id[1];
  event.dims = {whole_microseconds(queued), whole_microseconds(batched), whole_microseconds(run),
                static_cast<std::int32_t>(code)};
}

RequestFigures RequestFigures::of(const TraceEvent& event) {
  return {.trace_id = {event.arrow, event.bytes},
          .queued = event.dims[0] * kMicrosecond,
          .batched = event.dims[1] * kMicrosecond,
          .run = event.dims[2] * kMicrosecond,
          .code = static_cast<Code>(event.dims[3])};
}

}  // namespace troupe
