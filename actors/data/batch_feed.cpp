#include "troupe/actors/data/batch_feed.hpp"

#include <caf/send.hpp>
#include <utility>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/base/training_record.hpp>
#include <troupe/actors/data/feed_actor.hpp>
#include <troupe/actors/data/input_actor.hpp>
#include <troupe/actors/data/traced_stages.hpp>

namespace troupe {
namespace {

// A read in place is slow if it takes this long, and this part of the time since the read before. Handing a batch to
// another thread and back takes about 10 us.
constexpr std::chrono::microseconds kSlowRead{200};
constexpr int kSlowPart = 10;
constexpr int kSlowReads = 3;                 // in a row, before others read ahead
constexpr std::chrono::seconds kPatience{2};  // for an input task, before batches are read here
constexpr std::chrono::milliseconds kCheckInterval{200};

}  // namespace

BatchFeed::BatchFeed(Config config)
    : config_(std::move(config)),
      mailbox_(std::make_shared<FeedMailbox>(config_.wake)),
      reads_(config_.service.train.source, config_.service.evaluation.source) {
  if (config_.inputs.empty()) return;
  actor_ = spawn_actor<ActorKind::feed, FeedActorImpl>(config_.system, config_.registry, config_.self.to_string(),
                                                       FeedActorImpl::Config{.self = config_.self,
                                                                             .feed = random_id(),
                                                                             .settings = config_.service.settings,
                                                                             .slots = config_.service.desk.slots,
                                                                             .inputs = config_.inputs,
                                                                             .mailbox = mailbox_});
  caf::anon_send(config_.node, Observe{caf::actor_cast<PeerObserver>(actor_)});
}

BatchFeed::~BatchFeed() {
  if (config_.record) config_.record->set_pipelines(nullptr);
  if (!closed_) close(0, 0, Error(Code::cancelled, fmt::format("{} has left the training", config_.self.to_string())));
  if (!own_) return;
  caf::anon_send(own_, Stop{});
  own_ = nullptr;
  service_->await_release();
}

void BatchFeed::go_on_from(const DataPlace& place) {
  place_ = place;
  if (actor_) caf::anon_send(actor_, GoOnFrom{place});
}

void BatchFeed::want(const BatchName& batch, const BatchName& complete) {
  complete_ = std::max(complete_, complete);
  if (actor_) ask(batch);
}

void BatchFeed::ask(const BatchName& batch) {
  if (asked_.insert(batch).second) caf::anon_send(actor_, AskBatch{batch, complete_});
}

std::optional<MadeBatch> BatchFeed::try_take(const BatchName& batch) {
  if (!actor_) return read(batch);
  ask(batch);
  if (auto made = mailbox_->take(batch)) {
    asked_.erase(batch);
    MadeBatch out{.batch = {.components = std::move(made->components),
                            .examples = made->examples,
                            .position = std::move(made->position)},
                  .over = made->over};
    note_place(batch, out.batch);
    return out;
  }
  if (!alone()) return std::nullopt;
  drop(batch);
  return read(batch);
}

MadeBatch BatchFeed::take(const BatchName& batch, const std::function<void()>& check) {
  if (may_be_slow()) check();
  for (;;) {
    if (auto made = try_take(batch)) return std::move(*made);
    check();
    mailbox_->wait(kCheckInterval);
  }
}

bool BatchFeed::may_be_slow() const { return (!actor_ || told_alone_) && (!train_ || slow_ > 0); }

void BatchFeed::drop(const BatchName& batch) {
  if (asked_.erase(batch) == 0) return;
  caf::anon_send(actor_, DropBatch{batch});
  mailbox_->forget(batch);
}

void BatchFeed::close(std::uint64_t steps, std::uint32_t epochs, const Error& error) {
  closed_ = true;
  if (actor_) caf::anon_send(actor_, EndFeed{steps, epochs, error});
}

MadeBatch BatchFeed::read(const BatchName& batch) {
  std::unique_ptr<BatchReader>& reader = batch.evaluation ? evaluation_ : train_;
  const FeedService::Data& data = batch.evaluation ? config_.service.evaluation : config_.service.train;
  if (!reader) {
    reader = data.source->open(data.plan);
    if (config_.record) config_.record->set_pipelines([this] { return reads_.show(); });
    if (!batch.evaluation) reader->go_on_from(place_);
  }
  const TraceSlice slice(config_.registry.trace(), TraceKind::work, "read");
  const TracedStages traced;
  const auto began = Clock::now();
  reads_.begin(batch.evaluation, began.time_since_epoch() / std::chrono::nanoseconds(1));
  auto made = reader->read(batch.epoch, batch.step, batch.slot);
  const auto took = Clock::now() - began;
  reads_.end(batch.evaluation, made.has_value());
  slow_ = took > kSlowRead && kSlowPart * took > began - read_at_ ? slow_ + 1 : 0;
  read_at_ = began;
  if (slow_ >= kSlowReads && !actor_) read_ahead();
  if (!made) return {.over = true};
  note_place(batch, *made);
  return {.batch = std::move(*made)};
}

void BatchFeed::note_place(const BatchName& batch, const Batch& made) {
  if (!made.position.empty() && !batch.evaluation) place_ = {batch.epoch, batch.step, made.position};
}

void BatchFeed::read_ahead() {
  reads_.leave();
  const std::uint64_t feed = random_id();
  service_ = std::make_shared<FeedService>(config_.service);
  actor_ = spawn_actor<ActorKind::feed, FeedActorImpl>(config_.system, config_.registry, config_.self.to_string(),
                                                       FeedActorImpl::Config{.self = config_.self,
                                                                             .feed = feed,
                                                                             .settings = config_.service.settings,
                                                                             .slots = config_.service.desk.slots,
                                                                             .inputs = {config_.self},
                                                                             .mailbox = mailbox_});
  own_ = spawn_actor<ActorKind::input, InputActorImpl>(
      config_.system, config_.registry, config_.self.to_string(),
      InputActorImpl::Config{.self = config_.self,
                             .registry = &config_.registry,
                             .own = actor_,
                             .fails = [mailbox = mailbox_](const Error& why) { mailbox->fail(why); }});
  caf::anon_send(actor_, GoOnFrom{place_});
  caf::anon_send(own_, ServeFeeds{FeedService::use(service_)});
  caf::anon_send(actor_, MeetInput{own_});
}

// Whether no input task can be reached, for a while now.
bool BatchFeed::alone() {
  if (own_ || mailbox_->up()) {
    if (std::exchange(told_alone_, false)) {
      reads_.leave();
      if (config_.on_event) config_.on_event("batches come from input tasks again");
    }
    alone_since_.reset();
    return false;
  }
  const auto now = Clock::now();
  if (!alone_since_) alone_since_ = now;
  if (now - *alone_since_ < kPatience) return false;
  if (!std::exchange(told_alone_, true) && config_.on_event)
    config_.on_event(fmt::format("no input task can be reached: {} reads its batches itself until one can",
                                 config_.self.to_string()));
  return true;
}

}  // namespace troupe
