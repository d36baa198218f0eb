// Messages in a trace: a slice for the handling, the time waited in the mailbox, and an arrow from the sender, on any
// task.
#pragma once

#include <optional>

#include <troupe/actors/base/actor_record.hpp>

namespace troupe {

// Traces the handling of message `content` by the actor, or (null) work run by a device, while it lives. Does nothing
// unless the task is traced.
class TracedMessage {
 public:
  TracedMessage(ActorRecord& record, const MessageKind& kind, const MessageNote& note, const void* content) {
    if (record.registry.trace().on()) [[unlikely]]
      begin(record, kind, note, content);
  }

 private:
  void begin(ActorRecord& record, const MessageKind& kind, const MessageNote& note, const void* content);
  std::optional<TraceSlice> slice_;
};

// Begins the arrow of a message that leaves this thread for an actor of this task or, in an Outbound, for task `to`.
// Does nothing if the message has no arrow or the task is not traced.
void trace_departure(Trace& trace, const std::type_info& type, const void* message, const std::string& to);
template <class Message>
void trace_departure(Trace& trace, const Message& message, const std::string& to = {}) {
  if (trace.on()) [[unlikely]]
    trace_departure(trace, typeid(Message), &message, to);
}

}  // namespace troupe
