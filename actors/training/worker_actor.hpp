// A worker's place in a job. The training loop is a plain thread that computes; this actor carries its frames to the
// coordinator, and what comes for it into a mailbox it can wait at.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/introspection/counted.hpp"
#include "actors/training/job_links.hpp"

namespace troupe {

// Filled by the worker actor, emptied by the training loop.
class WorkerMailbox {
 public:
  void put(Frame frame);
  void fail(Error error);  // the job has failed; later calls change nothing
  void close();            // the job is over: losing tasks is no failure any more
  void wake();             // take() returns, with a frame or without
  // The next frame; waits at most `timeout` and returns none then, or if woken. Throws the error of a failed job.
  std::optional<Frame> take(std::chrono::nanoseconds timeout);
  // Throws the error of a failed job, also if it fails within `patience`.
  void check(std::chrono::nanoseconds patience = {});

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Frame> frames_;
  Error error_;
  bool closed_ = false;
  bool woken_ = false;
};

class WorkerActorImpl final : public Counted<WorkerActor> {
 public:
  WorkerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, std::shared_ptr<WorkerMailbox> mailbox)
      : Counted(config, std::move(record)), mailbox_(std::move(mailbox)) {}
  behavior_type make_behavior() override;

 private:
  std::shared_ptr<WorkerMailbox> mailbox_;
  PeerActor coordinator_;
  std::vector<Frame> waiting_;  // for the link to the coordinator
};

}  // namespace troupe
