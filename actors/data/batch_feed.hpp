// Where a training loop gets its batches: from the input tasks of its cluster, or from readers on this task.
//
// Without input tasks batches are read in place, on the caller's thread, as long as that is quick; else a reader and
// makers on this task, with their own threads, read ahead. With input tasks, all come from those. While none of them
// can be reached, after a moment, batches are read in place: a batch is the same wherever it is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/data/feed_service.hpp>
#include <troupe/actors/data/in_place_reads.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace caf {
class actor_system;
}

namespace troupe {

class ActorRegistry;
class FeedMailbox;
class TrainingRecord;

// Not thread-safe.
class BatchFeed {
 public:
  struct Config {
    TaskName self{};
    caf::actor_system& system;
    ActorRegistry& registry;
    LocalNodeActor node{};           // of this task
    std::vector<TaskName> inputs{};  // input tasks of the cluster
    FeedService::Config service{};
    TrainingRecord* record = nullptr;                    // shows what is read in place; null: nobody
    std::function<void()> wake{};                        // a batch has come; any thread
    std::function<void(const std::string&)> on_event{};  // batches are read here, or no longer
  };
  explicit BatchFeed(Config config);
  ~BatchFeed();  // leaves, if close() was not called
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  // The destination of BatchMade frames (JobRoutes::feed); null without input tasks.
  const FeedActor& actor() const { return actor_; }

  // Where the training resumes: call it before the first batch is wanted.
  void go_on_from(const DataPlace& place);
  // Whether taking a batch reads it in place, on the caller's thread, and perhaps not quickly.
  bool may_be_slow() const;
  // The batch will be taken. `complete`: as in WantBatch.
  void want(const BatchName& batch, const BatchName& complete);
  // nullopt: it is not there yet; MadeBatch::over: the epoch has no such batch. Throws the error of reading it.
  std::optional<MadeBatch> try_take(const BatchName& batch);
  // Waits for it, and calls `check`, which may throw: now and then while it is not there, and before if may_be_slow().
  MadeBatch take(const BatchName& batch, const std::function<void()>& check);
  // It will not be taken after all.
  void drop(const BatchName& batch);

  // The training is over, after so many steps and epochs; or, with an error, this task leaves it.
  void close(std::uint64_t steps, std::uint32_t epochs, const Error& error = {});

 private:
  using Clock = std::chrono::steady_clock;

  MadeBatch read(const BatchName& batch);
  void note_place(const BatchName& batch, const Batch& made);
  void ask(const BatchName& batch);
  void read_ahead();
  bool alone();

  Config config_;
  std::shared_ptr<FeedMailbox> mailbox_;
  FeedActor actor_;
  InputActor own_;  // once this task reads ahead
  std::shared_ptr<FeedService> service_;
  std::unique_ptr<BatchReader> train_, evaluation_;  // opened when they are needed first
  InPlaceReads reads_;
  std::set<BatchName> asked_;
  BatchName complete_{};
  DataPlace place_;  // the latest known
  std::optional<Clock::time_point> alone_since_;
  bool told_alone_ = false, closed_ = false;
  Clock::time_point read_at_{};  // the last in place
  int slow_ = 0;                 // such reads in a row that were slow
};

}  // namespace troupe
