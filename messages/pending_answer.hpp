// The way back to somebody who waits for a Reply and is no actor.
#pragma once

#include <functional>
#include <utility>

#include <troupe/messages/control.hpp>

namespace troupe {

// Answers once: what give() is told, or, if its last owner goes without a word, that nobody answered. Any thread, one
// at a time.
class PendingAnswer {
 public:
  explicit PendingAnswer(std::function<void(const Reply&)> take) : take_(std::move(take)) {}
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;
  ~PendingAnswer() { give(Reply::of(Error(Code::unavailable, "whoever was asked has ended"))); }
  void give(const Reply& reply) {
    if (const auto take = std::exchange(take_, nullptr)) take(reply);
  }

 private:
  std::function<void(const Reply&)> take_;
};

}  // namespace troupe
