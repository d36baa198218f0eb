#include "troupe/actors/training/worker_actor.hpp"

#include <algorithm>

namespace troupe {

void WorkerMailbox::put(WorkerFrame frame) {
  {
    std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
    heard_ = now_();
  }
  came_.notify_all();
}

void WorkerMailbox::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
    heard_ = now_();
  }
  came_.notify_all();
}

void WorkerMailbox::fail(Error error, std::uint64_t over) {
  {
    std::lock_guard lock(mutex_);
    over_ = std::max(over_, over);
    if (closed_ || error_) return;
    error_ = std::move(error);
  }
  came_.notify_all();
}

std::uint64_t WorkerMailbox::over() const {
  std::lock_guard lock(mutex_);
  return over_;
}

void WorkerMailbox::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

std::optional<WorkerFrame> WorkerMailbox::take(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, timeout, [this] { return error_ || woken_ || !frames_.empty(); });
  woken_ = false;
  if (!frames_.empty()) {
    WorkerFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  if (error_) throw error_;
  if (silence_.count() > 0 && now_() - heard_ > silence_) {
    lock.unlock();  // asking the cluster takes a while
    troupe::fail(Code::deadline_exceeded, "no message from the job's coordinator on {} for {} s{}",
                 kCoordinatorTask.to_string(), std::chrono::duration<double>(silence_).count(),
                 why_ ? "\n" + why_() : "");
  }
  return std::nullopt;
}

void WorkerMailbox::check(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, patience, [this] { return static_cast<bool>(error_); });
  if (error_) throw error_;
}

WorkerActorImpl::behavior_type WorkerActorImpl::make_behavior() {
  return {
      [this](const Outbound& message) { coordinator_.say(message, telling()); },
      [this](const Inbound<Joined>& message) { mailbox_->put(message.frame); },
      [this](const Inbound<Token>& message) { mailbox_->put(message.frame); },
      [this](const Inbound<EpochDone>& message) { mailbox_->put(message.frame); },
      [this](const Inbound<Commit>& message) { mailbox_->put(message.frame); },
      [this](const Inbound<Fence>& message) { mailbox_->put(message.frame); },
      [this](const Inbound<BarrierOpen>& message) {
        mailbox_->close();
        mailbox_->put(message.frame);
      },
      [this](const Inbound<JobFailed>& message) { mailbox_->fail(message.frame.error, message.frame.job); },
      [this](const PeerUp& message) { coordinator_.up(message, telling()); },
      [this](const PeerDown& message) {
        // The coordinator judges other losses: a shard may leave a finished job before this worker hears that it is
        // over.
        if (message.task != kCoordinatorTask) return;
        coordinator_.down();
        mailbox_->fail(
            Error(Code::unavailable, fmt::format("lost {}: {}", message.task.to_string(), message.reason.message())));
      },
      [this](const Stop&) {
        coordinator_.down();
        quit();
      },
  };
}

}  // namespace troupe
