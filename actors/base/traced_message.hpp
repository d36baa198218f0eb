// Messages in a trace: a slice while an actor handles one, the time it waited in the mailbox, and arrows from its
// sender, on any task.
#pragma once

#include <optional>

#include <troupe/actors/base/actor_record.hpp>

namespace troupe {

// While it lives, the actor handles the message `content`, or a device runs its work (null). Does nothing unless the
// task is traced.
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

// A message leaves this thread for an actor of this task or, in an Outbound, for task `to`: begins an arrow if the
// message has one and the task is traced.
void trace_departure(Trace& trace, const std::type_info& type, const void* message, const std::string& to);
template <class Message>
void trace_departure(Trace& trace, const Message& message, const std::string& to = {}) {
  if (trace.on()) [[unlikely]]
    trace_departure(trace, typeid(Message), &message, to);
}

}  // namespace troupe
