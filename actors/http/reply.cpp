#include "troupe/actors/http/reply.hpp"

#include <microhttpd.h>

#include <troupe/actors/http/exchange.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

bool HttpReply::State::give(HttpAnswer&& given) {
  std::function<void()> unneeded;  // may hold the last reference to what answers; is destroyed without the lock
  const std::lock_guard lock(mutex);
  if (answer || taken) return false;
  answer = std::move(given);
  unneeded.swap(gone);
  if (watched != 0) hangups->forget(watched);
  watched = 0;
  hangups = nullptr;
  if (suspended) MHD_resume_connection(std::exchange(suspended, nullptr));
  return true;
}

void HttpReply::State::cut() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex);
    if (!answer && !taken) call.swap(gone);
  }
  if (call) call();
}

HttpReply& HttpReply::operator=(HttpReply&& other) noexcept {
  if (this == &other) return *this;
  drop();
  state_ = std::move(other.state_);
  return *this;
}

void HttpReply::send(HttpAnswer answer) {
  if (state_) state_->give(std::move(answer));
}

void HttpReply::on_gone(std::function<void()> gone) {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->answer || state_->taken || !state_->hangups) return;
  state_->gone = std::move(gone);
  if (state_->watched != 0) return;
  // Not the reply itself: it is dropped if nobody holds it any more.
  state_->watched = state_->hangups->watch(state_->fd, [weak = std::weak_ptr(state_)] {
    if (const auto state = weak.lock()) state->cut();
  });
}

void HttpReply::drop() {
  const std::shared_ptr<State> state = std::move(state_);
  if (!state) return;
  if (state->give(HttpAnswer::of(Error(Code::internal, "the request was dropped without an answer")))) {
    const std::lock_guard lock(state->mutex);
    state->dropped = true;
  }
}

}  // namespace troupe
