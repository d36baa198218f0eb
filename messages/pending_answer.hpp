// Delivers a Reply to a caller that is not an actor.
#pragma once

#include <functional>
#include <utility>

#include <troupe/messages/control.hpp>

namespace troupe {

// Answers once: with give()'s reply, or with an error when the last owner goes without replying. May be used from any
// thread, one at a time.
class PendingAnswer {
 public:
  explicit PendingAnswer(std::function<void(const Reply&)> take) : take_(std::move(take)) {}
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;
  ~PendingAnswer() { give(Reply::of(Error(Code::unavailable, "the callee ended without an answer"))); }
  void give(const Reply& reply) {
    if (const auto take = std::exchange(take_, nullptr)) take(reply);
  }

 private:
  std::function<void(const Reply&)> take_;
};

}  // namespace troupe
