// Fetches the batches that a training loop wants from input tasks, or from an input actor of its own task. Batches that
// a lost task was asked for are asked of another (scheduler/data/feed_requests.hpp).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/data/batch_source.hpp>
#include <troupe/scheduler/data/feed_requests.hpp>

namespace troupe {

// Filled by the feed actor, emptied by the training loop.
class FeedMailbox {
 public:
  explicit FeedMailbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  void put(BatchMade made);
  void fail(const Error& why);
  // Whether any input task can be asked.
  void set_up(bool up);
  bool up() const;
  // The batch, if it has come. Throws the error of making it, or of the feed.
  std::optional<BatchMade> take(const BatchName& batch);
  void forget(const BatchName& batch);
  // Returns when one may have come, at the latest after `timeout`.
  void wait(std::chrono::nanoseconds timeout);

 private:
  const std::function<void()> wake_;  // called without the lock
  mutable std::mutex mutex_;
  std::condition_variable came_;
  bool news_ = false, up_ = false;
  std::map<BatchName, BatchMade> made_;
  Error error_;
};

class FeedActorImpl final : public Counted<FeedActor> {
 public:
  struct Config {
    TaskName self{};
    std::uint64_t feed = 0;  // its number
    std::string settings{};  // OpenFeed::settings
    std::uint32_t slots = 1;
    std::vector<TaskName> inputs{};  // that there may be
    std::shared_ptr<FeedMailbox> mailbox{};
  };
  FeedActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config options);
  behavior_type make_behavior() override;
  // Asks for batches on the loop's thread, and takes them on the wire's.
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) override;
  using Counted::enqueue;
  void on_exit() override;

 private:
  void ask(const AskBatch& message);
  void came(Inbound<BatchMade>& message);
  void inspect(ActorDetails& out) const override;
  void escalate(const Error& why) override { mailbox_->fail(why); }
  void up(std::uint32_t input);
  void down(std::uint32_t input);
  std::optional<std::uint32_t> place_of(const TaskName& task) const;
  void send(const FeedRequests::Requests& requests);
  template <class F>
  void send(std::uint32_t input, F frame);
  void send_all(std::unique_lock<std::mutex> lock);

  const std::shared_ptr<FeedMailbox> mailbox_;
  mutable std::mutex mutex_;  // of all below
  Config config_;
  FeedRequests requests_;
  std::map<std::uint32_t, PeerActor> peers_;  // by place in Config::inputs
  InputActor own_;                            // of this task, instead
  BatchName complete_{};
  DataPlace place_;  // the latest known
  struct ToSend {
    PeerActor peer;  // null: `own`
    InputActor own;
    Frame frame;
  };
  std::vector<ToSend> to_send_;
  std::vector<ToSend> leaving_;  // of the thread in send_all()
  bool sends_ = false;           // a thread is in send_all()
};

}  // namespace troupe
