// A worker's place in a job. The training loop is a plain thread that computes; this actor carries its frames to the
// coordinator, and what comes for it into a mailbox it can wait at.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/training/job_links.hpp>

namespace troupe {

// The frames that a worker takes.
using WorkerFrame = std::variant<Joined, Token, EpochDone, Commit, Fence, BarrierOpen>;

// Filled by the worker actor, emptied by the training loop.
class WorkerMailbox {
 public:
  // `silence`: how long nothing may come before take() throws; 0: for ever. `now`: of a steady clock.
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  // `why`: what to add to that error, if anything.
  explicit WorkerMailbox(std::chrono::nanoseconds silence = {}, Now now = std::chrono::steady_clock::now,
                         std::function<std::string()> why = nullptr)
      : silence_(silence), now_(std::move(now)), why_(std::move(why)), heard_(now_()) {}
  void put(WorkerFrame frame);
  // The job has failed; later calls change nothing. `over`: its number, if it is known to be over for all.
  void fail(Error error, std::uint64_t over = 0);
  void close();  // the job is over: losing tasks is no failure any more
  void wake();   // take() returns, with a frame or without
  // The next frame; waits at most `timeout` and returns none then, or if woken. Throws the error of a failed job, or
  // deadline_exceeded if nothing has come for so long that the coordinator, which has deadlines of its own, must be
  // stuck.
  std::optional<WorkerFrame> take(std::chrono::nanoseconds timeout);
  // Throws the error of a failed job, also if it fails within `patience`.
  void check(std::chrono::nanoseconds patience = {});
  std::uint64_t over() const;  // as told to fail()

 private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<WorkerFrame> frames_;
  Error error_;
  std::uint64_t over_ = 0;
  bool closed_ = false;
  bool woken_ = false;
  const std::chrono::nanoseconds silence_;
  const Now now_;
  const std::function<std::string()> why_;
  std::chrono::steady_clock::time_point heard_;  // when a frame was put, or wake() called
};

class WorkerActorImpl final : public Counted<WorkerActor> {
 public:
  WorkerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record,
                  std::shared_ptr<WorkerMailbox> mailbox)
      : Counted(config, std::move(record)), mailbox_(std::move(mailbox)) {}
  behavior_type make_behavior() override;

 private:
  void escalate(const Error& why) override { mailbox_->fail(why); }
  auto telling() {
    return [this](const auto& to, const auto& what) { tell(to, what); };
  }

  std::shared_ptr<WorkerMailbox> mailbox_;
  CoordinatorLink coordinator_;
};

}  // namespace troupe
