// Describes messages for inspection: their names, and the fields kept in a flight record.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include <troupe/messages/device_name.hpp>

namespace troupe {

// A task name in fixed space: up to 12 characters of the job, and the index.
struct PackedTask {
  std::array<std::uint64_t, 2> bits{};
  static PackedTask of(const TaskName& task);
  bool empty() const { return bits[0] == 0; }
  std::string to_string() const;  // "/job:worker/task:1"; "" if empty
};

struct MessageNote {
  std::uint64_t step = 0;   // 0 if none
  std::uint64_t bytes = 0;  // of the message's tensors
  PackedTask from;          // the remote sender's task; empty for this task
};

// One per message type, and one per kind of frame that passes through a peer. Lives until the process ends.
class MessageKind {
 public:
  std::string label;    // "RunStep", "Push", "to wire: Push"
  bool of_caf = false;  // one kind covers all of CAF's own types
  // The kind of type `T` of messages/caf/protocol.hpp.
  template <class T>
  static const MessageKind& of() {
    static const MessageKind& kind = find(&typeid(T));
    return kind;
  }
  // Returns null for CAF's own types.
  static const MessageKind& find(const std::type_info* type);
  // `content`: a message of this kind's type. Returns this kind, or that of the frame inside.
  const MessageKind& describe(const void* content, MessageNote& note) const {
    return describe_ ? describe_(*this, content, note) : *this;
  }

  // Links the two ends of a message's path in a trace: a number that sender and receiver both compute from its
  // contents; 0 if none. Except for a Put, messages between other tasks may share the number.
  std::uint64_t arrow(const void* content) const { return arrow_ && content ? arrow_(content) : 0; }

  // Implemented in message_kind.cpp.
  using Describe = const MessageKind& (*)(const MessageKind&, const void*, MessageNote&);
  using Arrow = std::uint64_t (*)(const void*);
  MessageKind(std::string label, Describe describe = nullptr, Arrow arrow = nullptr,
              std::vector<MessageKind> frames = {})
      : label(std::move(label)), describe_(describe), arrow_(arrow), frames(std::move(frames)) {}

 private:
  Describe describe_;
  Arrow arrow_;

 public:
  const std::vector<MessageKind> frames;  // by index in Frame, for types that carry frames
};

}  // namespace troupe
