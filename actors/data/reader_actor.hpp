// The actors that make batches. The reader begins them: it goes through the files. Makers, several at a time, do the
// rest: they parse and map examples and lay them out as tensors.
#pragma once

#include <memory>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/data/feed_service.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class MakerActorImpl final : public Counted<MakerActor> {
 public:
  MakerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, std::shared_ptr<FeedService::Use> use,
                 InputActor input);
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  std::shared_ptr<FeedService::Use> use_;
  InputActor input_;
};

class ReaderActorImpl final : public Counted<ReaderActor> {
 public:
  // Gives batches to the makers in turn.
  ReaderActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, std::shared_ptr<FeedService::Use> use,
                  InputActor input, std::vector<MakerActor> makers);
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void begin(const BatchName& batch, bool makes);
  std::shared_ptr<BatchReader>& reader_of(const BatchName& batch);

  std::shared_ptr<FeedService::Use> use_;
  InputActor input_;
  std::vector<MakerActor> makers_;
  std::size_t next_maker_ = 0;
  DataPlace place_;
  std::shared_ptr<BatchReader> train_, evaluation_;  // opened when they are needed first
};

}  // namespace troupe
