// Makes numbered batches for feeds: those of other tasks' workers, on an input task, or that of its own task's
// training.
//
//   no service ──ServeFeeds──▶ serving ──CloseFeed without an error──▶ over ──EndService──▶ no service
//                                 └───────────────EndService──────────────────────────────────▲
//
// Frames of feeds, and batches that are made, are handled on the thread that brings them: a batch that is there is sent
// without waking a thread here.
//
// What feeds want before the training has begun here is kept until then. BatchDesk decides what is made
// when, and how long it is kept; a reader and makers, actors with their own threads, make it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/data/feed_service.hpp>
#include <troupe/actors/data/stage_rates.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class InputActorImpl final : public Counted<InputActor> {
 public:
  struct Config {
    TaskName self{};
    ActorRegistry* registry = nullptr;
    FeedActor own = {};                       // of this task
    std::function<void(const Error&)> fails;  // what this actor's failure ends
  };
  InputActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config options)
      : Counted(config, std::move(record)), config_(std::move(options)) {}
  behavior_type make_behavior() override;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;
  using Counted::enqueue;
  void on_exit() override;

 private:
  struct Feed {
    TaskName task;
    std::string settings;
    DataPlace place;
    std::map<BatchName, WantBatch> wanted{};  // not answered yet: a service that begins takes them up
    Error refused{};
    bool over = false;  // its training is: it counts for none that comes
  };

  void inspect(ActorDetails& out) const override;
  void escalate(const Error& why) override;
  template <class Message, class Handle>
  bool at_once(caf::mailbox_element& element, caf::execution_unit* host, Handle&& handle);
  void made(const BatchReady& message);
  void serve(std::shared_ptr<FeedService::Use> use);
  void end_service();
  void open(const TaskName& task, const OpenFeed& open);
  void want(const TaskName& task, const WantBatch& want);
  void close(const TaskName& task, const CloseFeed& close);
  void lost(const TaskName& task, const Error& why);
  void admit(Feed& feed);
  std::size_t open_feeds() const;
  void begin_batches();
  void reply(const BatchDesk::Replies& replies);
  void send(const TaskName& to, BatchMade made);
  void sample();

  mutable std::mutex mutex_;  // of all below
  Config config_;
  std::map<TaskName, PeerActor> peers_;
  std::map<std::uint64_t, Feed> feeds_;
  std::shared_ptr<FeedService::Use> use_;  // of the current service
  std::unique_ptr<BatchDesk> desk_;
  ReaderActor reader_;
  StageRates training_, evaluation_;
  bool over_ = false;  // the service's training is: feeds opened from now on are for the next
};

}  // namespace troupe
