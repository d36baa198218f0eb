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
      config_(std::move(options)),
      requests_(config_.slots, static_cast<std::uint32_t>(config_.inputs.size())) {}

FeedActorImpl::behavior_type FeedActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const AskBatch& message) {
        complete_ = std::max(complete_, message.complete);
        FeedRequests::Requests out;
        requests_.want(message.batch, out);
        send(out);
      },
      [this](const GoOnFrom& message) {
        place_ = message.place;
        const OpenFeed open{config_.feed, config_.settings, place_};
        if (own_) send(0, open);
        for (const auto& [input, peer] : peers_) send(input, open);
      },
      [this](const DropBatch& message) { requests_.came(message.batch); },
      [this](const EndFeed& message) {
        const CloseFeed close{config_.feed, message.steps, message.epochs, message.error};
        if (own_) send(0, close);
        for (const auto& [input, peer] : peers_) send(input, close);
        quit();
      },
      [this](Inbound<BatchMade>& message) {
        if (message.frame.feed != config_.feed || !requests_.came(message.frame.batch)) return;
        const BatchMade& made = message.frame;
        if (!made.position.empty() && !made.batch.evaluation)
          place_ = {made.batch.epoch, made.batch.step, made.position};
        if (message.frame.error) message.frame.error = message.frame.error.within(message.from.to_string());
        config_.mailbox->put(std::move(message.frame));
      },
      [this](const MeetInput& message) {
        own_ = message.input;
        up(0);
      },
      [this](const PeerUp& message) {
        const auto input = place_of(message.task);
        if (!input) return;
        peers_[*input] = message.peer;
        up(*input);
      },
      [this](const PeerDown& message) {
        if (const auto input = place_of(message.task)) down(*input);
      },
      [this](const Stop&) { quit(); },
  };
}

void FeedActorImpl::on_exit() {
  stop_telling();
  peers_.clear();
  own_ = nullptr;
  Counted::on_exit();
}

std::optional<std::uint32_t> FeedActorImpl::place_of(const TaskName& task) const {
  const auto place = std::ranges::find(config_.inputs, task);
  if (place == config_.inputs.end() || own_) return std::nullopt;
  return static_cast<std::uint32_t>(place - config_.inputs.begin());
}

void FeedActorImpl::up(std::uint32_t input) {
  send(input, OpenFeed{config_.feed, config_.settings, place_});
  FeedRequests::Requests out;
  requests_.up(input, out);
  config_.mailbox->set_up(true);
  send(out);
}

void FeedActorImpl::down(std::uint32_t input) {
  peers_.erase(input);
  FeedRequests::Requests out;
  requests_.down(input, out);
  config_.mailbox->set_up(requests_.any_up());
  send(out);
}

void FeedActorImpl::send(const FeedRequests::Requests& requests) {
  for (const FeedRequests::Request& request : requests)
    send(request.input, WantBatch{config_.feed, request.batch, complete_});
}

template <class F>
void FeedActorImpl::send(std::uint32_t input, F frame) {
  if (own_) return tell(own_, Inbound<F>{config_.self, std::move(frame)});
  tell(peers_.at(input), Outbound{std::move(frame)});
}

void FeedActorImpl::inspect(ActorDetails& out) const {
  if (requests_.wanted() == 0) return;
  out.waits_for =
      requests_.any_up() ? fmt::format("{} batches of input tasks", requests_.wanted()) : "an input task to come up";
}

}  // namespace troupe
