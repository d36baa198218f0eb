#include "troupe/actors/data/feed_actor.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void FeedMailbox::put(BatchMade made) {
  {
    const std::lock_guard lock(mutex_);
    const BatchName batch = made.batch;
    made_.insert_or_assign(batch, std::move(made));
    news_ = true;
  }
  came_.notify_all();
  if (wake_) wake_();
}

void FeedMailbox::fail(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = why;
    news_ = true;
  }
  came_.notify_all();
  if (wake_) wake_();
}

void FeedMailbox::set_up(bool up) {
  const std::lock_guard lock(mutex_);
  up_ = up;
}

bool FeedMailbox::up() const {
  const std::lock_guard lock(mutex_);
  return up_;
}

std::optional<BatchMade> FeedMailbox::take(const BatchName& batch) {
  const std::lock_guard lock(mutex_);
  if (error_) throw error_;
  auto made = made_.extract(batch);
  if (made.empty()) return std::nullopt;
  if (made.mapped().error) throw made.mapped().error;
  return std::move(made.mapped());
}

void FeedMailbox::forget(const BatchName& batch) {
  const std::lock_guard lock(mutex_);
  made_.erase(batch);
}

void FeedMailbox::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, timeout, [this] { return news_; });
  news_ = false;
}

FeedActorImpl::FeedActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config options)
    : Counted(config, std::move(record)),
      mailbox_(options.mailbox),
      config_(std::move(options)),
      requests_(config_.slots, static_cast<std::uint32_t>(config_.inputs.size())) {}

FeedActorImpl::behavior_type FeedActorImpl::make_behavior() {
  tell_of_itself();
  const auto locked = [this](auto&& handle) {
    std::unique_lock lock(mutex_);
    handle();
    send_all(std::move(lock));
  };
  return {
      [](const AskBatch&) {},  // handled by enqueue(), like BatchMade
      [](const Inbound<BatchMade>&) {},
      [=, this](const GoOnFrom& message) {
        locked([&] {
          place_ = message.place;
          const OpenFeed open{config_.feed, config_.settings, place_};
          if (own_) send(0, open);
          for (const auto& [input, peer] : peers_) send(input, open);
        });
      },
      [=, this](const DropBatch& message) { locked([&] { requests_.came(message.batch); }); },
      [=, this](const EndFeed& message) {
        locked([&] {
          const CloseFeed close{config_.feed, message.steps, message.epochs, message.error};
          if (own_) send(0, close);
          for (const auto& [input, peer] : peers_) send(input, close);
        });
        quit();
      },
      [=, this](const MeetInput& message) {
        locked([&] {
          own_ = message.input;
          up(0);
        });
      },
      [=, this](const PeerUp& message) {
        locked([&] {
          const auto input = place_of(message.task);
          if (!input) return;
          peers_[*input] = message.peer;
          up(*input);
        });
      },
      [=, this](const PeerDown& message) {
        locked([&] {
          if (const auto input = place_of(message.task)) down(*input);
        });
      },
      [this](const Stop&) { quit(); },
  };
}

void FeedActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  auto& content = element->content();
  if (content.match_elements<AskBatch>())
    return handle_at_once(*element, host, [&] { ask(content.get_as<AskBatch>(0)); });
  if (content.match_elements<Inbound<BatchMade>>())
    return handle_at_once(*element, host, [&] { came(content.get_mutable_as<Inbound<BatchMade>>(0)); });
  Counted::enqueue(std::move(element), host);
}

void FeedActorImpl::ask(const AskBatch& message) {
  count_at_once(message);
  std::unique_lock lock(mutex_);
  complete_ = std::max(complete_, message.complete);
  FeedRequests::Requests out;
  requests_.want(message.batch, out);
  send(out);
  send_all(std::move(lock));
}

void FeedActorImpl::came(Inbound<BatchMade>& message) {
  count_at_once(message);
  BatchMade& made = message.frame;
  {
    const std::lock_guard lock(mutex_);
    if (made.feed != config_.feed || !requests_.came(made.batch)) return;
    if (!made.position.empty() && !made.batch.evaluation) place_ = {made.batch.epoch, made.batch.step, made.position};
  }
  if (made.error) made.error = made.error.within(message.from.to_string());
  mailbox_->put(std::move(made));
}

std::optional<std::uint32_t> FeedActorImpl::place_of(const TaskName& task) const {
  const auto place = std::ranges::find(config_.inputs, task);
  if (place == config_.inputs.end() || own_) return std::nullopt;
  return static_cast<std::uint32_t>(place - config_.inputs.begin());
}

void FeedActorImpl::on_exit() {
  stop_telling();
  {
    const std::lock_guard lock(mutex_);
    peers_.clear();
    own_ = nullptr;
  }
  Counted::on_exit();
}

void FeedActorImpl::up(std::uint32_t input) {
  send(input, OpenFeed{config_.feed, config_.settings, place_});
  FeedRequests::Requests out;
  requests_.up(input, out);
  mailbox_->set_up(true);
  send(out);
}

void FeedActorImpl::down(std::uint32_t input) {
  peers_.erase(input);
  FeedRequests::Requests out;
  requests_.down(input, out);
  mailbox_->set_up(requests_.any_up());
  send(out);
}

void FeedActorImpl::send(const FeedRequests::Requests& requests) {
  for (const FeedRequests::Request& request : requests)
    send(request.input, WantBatch{config_.feed, request.batch, complete_});
}

template <class F>
void FeedActorImpl::send(std::uint32_t input, F frame) {
  to_send_.push_back({own_ ? PeerActor() : peers_.at(input), own_, std::move(frame)});
}

// Without the lock, because the receiver may answer at once, on this thread. One thread at a time sends what all have
// to send: frames keep their order.
void FeedActorImpl::send_all(std::unique_lock<std::mutex> lock) {
  if (std::exchange(sends_, true)) return;
  while (!to_send_.empty()) {
    std::swap(to_send_, leaving_);
    lock.unlock();
    for (ToSend& one : leaving_)
      if (one.peer)
        tell_from_any_thread(one.peer, Outbound{std::move(one.frame)});
      else
        std::visit(
            [&]<class F>(F& frame) {
              if constexpr (std::is_same_v<F, OpenFeed> || std::is_same_v<F, WantBatch> || std::is_same_v<F, CloseFeed>)
                tell_from_any_thread(one.own, Inbound<F>{config_.self, std::move(frame)});
            },
            one.frame);
    leaving_.clear();
    lock.lock();
  }
  sends_ = false;
}

void FeedActorImpl::inspect(ActorDetails& out) const {
  const std::lock_guard lock(mutex_);
  if (requests_.wanted() == 0) return;
  out.waits_for =
      requests_.any_up() ? fmt::format("{} batches of input tasks", requests_.wanted()) : "an input task to come up";
}

}  // namespace troupe
