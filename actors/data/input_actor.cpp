#include "troupe/actors/data/input_actor.hpp"

#include <algorithm>
#include <utility>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/data/reader_actor.hpp>
#include <troupe/scheduler/training/job_members.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostWanted = 4096;  // batches that one feed may wait for

BatchMade failed(const WantBatch& want, Error why) {
  return {.feed = want.feed, .batch = want.batch, .components = {}, .error = std::move(why)};
}

}  // namespace

InputActorImpl::behavior_type InputActorImpl::make_behavior() {
  tell_of_itself();
  const auto locked = [this](auto&& handle) {
    const std::lock_guard lock(mutex_);
    handle();
  };
  return {
      [=, this](const ServeFeeds& message) {
        locked([&] { serve(std::static_pointer_cast<FeedService::Use>(message.service)); });
      },
      [=, this](const EndService& message) {
        locked([&] {
          if (use_ && message.service == use_) end_service();
        });
      },
      [](const PeerUp&) {},  // handled by enqueue(), like the next five: a task's frames come after it
      [](const PeerDown&) {},
      [](const Inbound<OpenFeed>&) {},
      [](const Inbound<WantBatch>&) {},
      [](const Inbound<CloseFeed>&) {},
      [](const BatchReady&) {},
      [this](const Stop&) { quit(); },
  };
}

template <class Message, class Handle>
bool InputActorImpl::at_once(caf::mailbox_element& element, caf::execution_unit* host, Handle&& handle) {
  if (!element.content().match_elements<Message>()) return false;
  handle_at_once(element, host, [&] {
    const auto& message = element.content().get_as<Message>(0);
    count_at_once(message);
    const std::lock_guard lock(mutex_);
    handle(message);
  });
  return true;
}

void InputActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  caf::mailbox_element& e = *element;
  const bool handled =
      at_once<Inbound<WantBatch>>(e, host, [&](const auto& message) { want(message.from, message.frame); }) ||
      at_once<BatchReady>(e, host, [&](const BatchReady& message) { made(message); }) ||
      at_once<Inbound<OpenFeed>>(e, host, [&](const auto& message) { open(message.from, message.frame); }) ||
      at_once<Inbound<CloseFeed>>(e, host, [&](const auto& message) { close(message.from, message.frame); });
  if (handled) return;
  const auto lose = [&](const PeerDown& message) {
    peers_.erase(message.task);
    lost(message.task, message.reason);
  };
  const bool of_peers = at_once<PeerUp>(e, host, [&](const PeerUp& message) { peers_[message.task] = message.peer; }) ||
                        at_once<PeerDown>(e, host, lose);
  if (!of_peers) Counted::enqueue(std::move(element), host);
}

void InputActorImpl::made(const BatchReady& message) {
  if (!desk_) return;
  BatchDesk::Replies replies;
  desk_->made(message.batch, std::static_pointer_cast<ReadyBatch>(message.made)->batch, replies);
  sample();
  begin_batches();
  reply(replies);
}

void InputActorImpl::on_exit() {
  stop_telling();
  {
    const std::lock_guard lock(mutex_);
    if (use_) end_service();
    peers_.clear();
    feeds_.clear();
    config_ = Config{};
  }
  Counted::on_exit();
}

void InputActorImpl::escalate(const Error& why) {
  std::unique_lock lock(mutex_);
  const auto fails = config_.fails;
  lock.unlock();
  if (fails)
    fails(why);
  else
    Counted::escalate(why);
}

void InputActorImpl::serve(std::shared_ptr<FeedService::Use> use) {
  if (use_) end_service();
  use_ = std::move(use);
  training_ = evaluation_ = StageRates();
  sample();
  desk_ = std::make_unique<BatchDesk>(use_->service().config().desk);
  const std::string self = config_.self.to_string();
  std::vector<MakerActor> makers;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, use_->service().config().desk.makers); ++i)
    makers.push_back(spawn_actor<ActorKind::maker, MakerActorImpl>(
        system(), *config_.registry, fmt::format("{} {}", self, i), use_, InputActor(this)));
  reader_ = spawn_actor<ActorKind::reader, ReaderActorImpl>(system(), *config_.registry, self, use_, InputActor(this),
                                                            std::move(makers));
  for (auto& [number, feed] : feeds_) {
    if (feed.over) continue;
    admit(feed);
    for (const auto& [batch, wanted] : std::map(feed.wanted)) want(feed.task, wanted);
  }
}

void InputActorImpl::end_service() {
  tell_from_any_thread(reader_, Stop{});
  reader_ = nullptr;
  desk_ = nullptr;
  use_ = nullptr;
  over_ = false;
}

// Also of a feed that is open, when its place is known.
void InputActorImpl::open(const TaskName& task, const OpenFeed& open) {
  std::erase_if(feeds_, [&](const auto& entry) {  // of an earlier attempt of the worker
    const bool replaced = entry.second.task == task && entry.first != open.feed;
    if (replaced && desk_) desk_->forget(entry.first);
    return replaced;
  });
  Feed& feed = feeds_[open.feed];
  feed.task = task;
  feed.settings = open.settings;
  feed.place = open.place;
  if (use_ && !over_ && !feed.over) admit(feed);
}

// Refuses a feed of other data.
void InputActorImpl::admit(Feed& feed) {
  FeedService& service = use_->service();
  feed.refused = {};
  if (feed.settings == service.config().settings) {
    if (!feed.place.position.empty()) tell_from_any_thread(reader_, GoOnFrom{feed.place});
    return service.opened(open_feeds());
  }
  feed.refused =
      Error(Code::failed_precondition,
            fmt::format("{} runs another program than {}: {}", config_.self.to_string(), feed.task.to_string(),
                        setting_differences(feed.settings, service.config().settings)));
  service.lost(open_feeds(), feed.refused);
}

std::size_t InputActorImpl::open_feeds() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(feeds_, [](const auto& entry) { return !entry.second.refused && !entry.second.over; }));
}

void InputActorImpl::want(const TaskName& task, const WantBatch& want) {
  const auto feed = feeds_.find(want.feed);
  if (feed == feeds_.end() || feed->second.task != task) return;
  if (feed->second.refused) return send(task, failed(want, feed->second.refused));
  if (feed->second.wanted.size() >= kMostWanted)
    return send(task,
                failed(want, Error(Code::resource_exhausted, fmt::format("{} wants more than {} batches at a time",
                                                                         task.to_string(), kMostWanted))));
  feed->second.wanted[want.batch] = want;
  if (!use_ || over_) return;
  BatchDesk::Replies replies;
  desk_->want(want.feed, want.batch, want.complete, replies);
  begin_batches();
  reply(replies);
}

void InputActorImpl::close(const TaskName& task, const CloseFeed& close) {
  const auto feed = feeds_.find(close.feed);
  if (feed == feeds_.end() || feed->second.task != task) return;
  const bool counts = use_ && !feed->second.refused && !feed->second.over && !over_;
  feeds_.erase(feed);
  if (desk_) desk_->forget(close.feed);
  if (!counts) return;
  if (!close.error) {
    over_ = true;
    for (auto& [number, other] : feeds_) other.over = true;
  }
  use_->service().closed(open_feeds(), close);
}

void InputActorImpl::lost(const TaskName& task, const Error& why) {
  const std::size_t before = feeds_.size();
  std::erase_if(feeds_, [&](const auto& entry) {
    if (entry.second.task != task) return false;
    if (desk_) desk_->forget(entry.first);
    return true;
  });
  if (use_ && !over_ && feeds_.size() < before) use_->service().lost(open_feeds(), why);
}

void InputActorImpl::begin_batches() {
  while (const auto batch = desk_->begin()) tell_from_any_thread(reader_, BeginBatch{*batch, desk_->makers() == 1});
}

void InputActorImpl::reply(const BatchDesk::Replies& replies) {
  for (const BatchDesk::Reply& reply : replies) {
    const auto feed = feeds_.find(reply.to);
    if (feed == feeds_.end()) continue;
    feed->second.wanted.erase(reply.batch);
    send(feed->second.task, {.feed = reply.to,
                             .batch = reply.batch,
                             .examples = reply.made->batch.examples,
                             .over = reply.made->over,
                             .components = reply.made->batch.components,
                             .error = reply.made->error,
                             .position = reply.made->batch.position});
  }
}

void InputActorImpl::send(const TaskName& to, BatchMade made) {
  if (to == config_.self) return tell_from_any_thread(config_.own, Inbound<BatchMade>{config_.self, std::move(made)});
  if (const auto peer = peers_.find(to); peer != peers_.end())
    tell_from_any_thread(peer->second, Outbound{std::move(made)});
}

void InputActorImpl::sample() {
  const FeedService::Config& config = use_->service().config();
  const std::int64_t now = steady_now_ns();
  training_.sample(now, [&] { return config.train.source->stages(); });
  if (config.evaluation.source) evaluation_.sample(now, [&] { return config.evaluation.source->stages(); });
}

void InputActorImpl::inspect(ActorDetails& out) const {
  const std::lock_guard lock(mutex_);
  if (!use_) {
    if (!feeds_.empty()) out.waits_for = "the training to begin on this task";
    return;
  }
  if (feeds_.empty()) out.waits_for = "workers that want batches";
  const FeedService::Config& config = use_->service().config();
  const std::int64_t now = steady_now_ns();
  const BatchDesk::Figures desk = desk_->figures();
  out.pipelines.push_back({.data = "training",
                           .feeds = open_feeds(),
                           .made = desk.made,
                           .waited = desk.waited,
                           .wanted = desk.wanted,
                           .making = desk.making,
                           .kept = desk.kept,
                           .kept_bytes = desk.kept_bytes,
                           .makers = desk.makers,
                           .ahead = desk.ahead,
                           .stages = training_.show(now, config.train.source->stages())});
  if (!config.evaluation.source) return;
  PipelineSnapshot evaluation{.data = "evaluation",
                              .stages = evaluation_.show(now, config.evaluation.source->stages())};
  if (!evaluation.stages.empty()) out.pipelines.push_back(std::move(evaluation));
}

}  // namespace troupe
