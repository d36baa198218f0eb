#include "troupe/actors/data/reader_actor.hpp"

#include <utility>

#include <troupe/actors/data/traced_stages.hpp>

namespace troupe {
namespace {

LocalHandle ready(MadeBatch made) {
  auto out = std::make_shared<ReadyBatch>();
  out->batch = std::make_shared<const MadeBatch>(std::move(made));
  return out;
}

}  // namespace

MakerActorImpl::MakerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record,
                               std::shared_ptr<FeedService::Use> use, InputActor input)
    : Counted(config, std::move(record)), use_(std::move(use)), input_(std::move(input)) {}

void MakerActorImpl::on_exit() {
  input_ = nullptr;
  Counted::on_exit();
  use_ = nullptr;
}

MakerActorImpl::behavior_type MakerActorImpl::make_behavior() {
  return {
      [this](MakeBatch& message) {
        const auto begun = std::static_pointer_cast<BegunBatch>(std::exchange(message.begun, nullptr));
        MadeBatch made;
        try {
          const TracedStages traced;
          made.batch = begun->reader->make(std::move(begun->unmade));
        } catch (...) {
          made.error = current_error();
        }
        tell(input_, BatchReady{message.batch, ready(std::move(made))});
      },
      [this](const Stop&) { quit(); },
  };
}

ReaderActorImpl::ReaderActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record,
                                 std::shared_ptr<FeedService::Use> use, InputActor input,
                                 std::vector<MakerActor> makers)
    : Counted(config, std::move(record)), use_(std::move(use)), input_(std::move(input)), makers_(std::move(makers)) {}

void ReaderActorImpl::on_exit() {
  for (const MakerActor& maker : makers_) tell(maker, Stop{});
  makers_.clear();
  train_ = evaluation_ = nullptr;
  input_ = nullptr;
  Counted::on_exit();
  use_ = nullptr;
}

ReaderActorImpl::behavior_type ReaderActorImpl::make_behavior() {
  return {
      [this](const GoOnFrom& message) {
        place_ = message.place;
        if (train_) train_->go_on_from(place_);
      },
      [this](const BeginBatch& message) {
        try {
          begin(message.batch, message.make);
        } catch (...) {
          tell(input_, BatchReady{message.batch, ready({.error = current_error()})});
        }
      },
      [this](const Stop&) { quit(); },
  };
}

void ReaderActorImpl::begin(const BatchName& batch, bool makes) {
  std::shared_ptr<BatchReader>& reader = reader_of(batch);
  const TracedStages traced;
  auto unmade = reader->begin(batch.epoch, batch.step, batch.slot);
  if (!unmade) return tell(input_, BatchReady{batch, ready({.over = true})});
  if (makes) return tell(input_, BatchReady{batch, ready({.batch = reader->make(std::move(*unmade))})});
  auto begun = std::make_shared<BegunBatch>();
  begun->use = use_;
  begun->reader = reader;
  begun->unmade = std::move(*unmade);
  tell(makers_[next_maker_], MakeBatch{batch, std::move(begun)});
  next_maker_ = (next_maker_ + 1) % makers_.size();
}

std::shared_ptr<BatchReader>& ReaderActorImpl::reader_of(const BatchName& batch) {
  std::shared_ptr<BatchReader>& reader = batch.evaluation ? evaluation_ : train_;
  if (reader) return reader;
  const FeedService::Data& data = use_->service().data_of(batch);
  if (!data.source) fail(Code::failed_precondition, "the training has no evaluation data");
  reader = data.source->open(data.plan);
  if (!batch.evaluation) reader->go_on_from(place_);
  return reader;
}

}  // namespace troupe
