// What can be said of a message from outside: its name, and what a flight record keeps of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include <troupe/messages/device_name.hpp>

namespace troupe {

// The name of a task in a fixed place: up to 12 characters of its job, and its index.
struct PackedTask {
  std::array<std::uint64_t, 2> bits{};
  static PackedTask of(const TaskName& task);
  bool empty() const { return bits[0] == 0; }
  std::string to_string() const;  // "/job:worker/task:1"; "" of none
};

struct MessageNote {
  std::uint64_t step = 0;   // 0: it is of none
  std::uint64_t bytes = 0;  // of its tensors
  PackedTask from;          // another task that it came from; empty: it is of this task
};

// One for each type of message, and for each kind of frame that goes through a peer. Lives as long as the process.
class MessageKind {
 public:
  std::string label;    // "RunStep", "Push", "to wire: Push"
  bool of_caf = false;  // one kind stands for all types of CAF's own
  // Of the type `T` of messages/caf/protocol.hpp.
  template <class T>
  static const MessageKind& of() {
    static const MessageKind& kind = find(&typeid(T));
    return kind;
  }
  // Null: a type of CAF's own.
  static const MessageKind& find(const std::type_info* type);
  // `content`: the message, of the type that this is the kind of. Returns the kind itself, or that of the frame in it.
  const MessageKind& describe(const void* content, MessageNote& note) const {
    return describe_ ? describe_(*this, content, note) : *this;
  }

  // What ties the two ends of a message's way together, in a trace: a number that its sender and its receiver compute
  // alike, from what is in it. Another message between other tasks may have the same, unless it is a Put. 0: none.
  std::uint64_t arrow(const void* content) const { return arrow_ && content ? arrow_(content) : 0; }

  // Of message_kind.cpp.
  using Describe = const MessageKind& (*)(const MessageKind&, const void*, MessageNote&);
  using Arrow = std::uint64_t (*)(const void*);
  MessageKind(std::string label, Describe describe = nullptr, Arrow arrow = nullptr,
              std::vector<MessageKind> frames = {})
      : label(std::move(label)), describe_(describe), arrow_(arrow), frames(std::move(frames)) {}

 private:
  Describe describe_;
  Arrow arrow_;

 public:
  const std::vector<MessageKind> frames;  // by index in Frame, of what carries frames
};

}  // namespace troupe
