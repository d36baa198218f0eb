// Packs the figures of a request into its event (TraceKind::request), whose fields mean something else in other events.
// The event's name is the version of the model, its detail the signature.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

struct RequestFigures {
  std::array<std::uint64_t, 2> trace_id{};  // of the client's trace, the first digits first; zeros: none
  Nanoseconds queued = 0, batched = 0, run = 0;
  Code code = Code::ok;  // how it ended

  // Keeps whole microseconds.
  void write_to(TraceEvent& event) const;
  static RequestFigures of(const TraceEvent& event);
};

}  // namespace troupe
