#include "troupe/actors/base/traced_message.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kShortestWait = 1000;  // ns

}  // namespace

void TracedMessage::begin(ActorRecord& record, const MessageKind& kind, const MessageNote& note, const void* content) {
  Trace& trace = record.registry.trace();
  const std::uint32_t track = record.trace_track();
  const std::int64_t came = record.next_came_ns();
  slice_.emplace(trace, track, TraceKind::message, kind.label, TraceStep{.key = 0, .number = note.step});
  TraceEvent& event = slice_->event();
  event.bytes = note.bytes;
  if (came != 0 && event.begin_ns - came >= kShortestWait)
    trace.add(
        {.kind = TraceKind::mailbox, .track = track, .begin_ns = came, .end_ns = event.begin_ns, .step = event.step},
        kind.label);
  if (const std::uint64_t arrow = kind.arrow(content)) {
    const std::string from = note.from.to_string();
    TraceSlice::arrow(trace, TraceKind::arrives, arrow, kind.label, event.step, from);
  }
}

void trace_departure(Trace& trace, const std::type_info& type, const void* message, const std::string& to) {
  MessageNote note;
  const MessageKind& kind = MessageKind::find(&type);
  const std::uint64_t arrow = kind.arrow(message);
  if (arrow == 0) return;
  const MessageKind& frame = kind.describe(message, note);
  TraceSlice::arrow(trace, TraceKind::departs, arrow, frame.label, {.key = 0, .number = note.step}, to);
}

}  // namespace troupe
