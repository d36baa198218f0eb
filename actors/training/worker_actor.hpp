// A worker's connection to a job. The training loop is a plain thread that computes; this actor sends its frames to the
// coordinator, and puts incoming ones into a mailbox on which the loop waits.
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

// Frames that a worker takes.
using WorkerFrame = std::variant<Joined, Token, EpochDone, Commit, Fence, BarrierOpen>;

// Filled by the worker actor, emptied by the training loop.
class WorkerMailbox {
 public:
  // `silence`: how long nothing may arrive before take() throws; 0: no limit. `now`: of a steady clock.
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  // `why`: text added to that error; null: none.
  explicit WorkerMailbox(std::chrono::nanoseconds silence = {}, Now now = std::chrono::steady_clock::now,
                         std::function<std::string()> why = nullptr)
      : silence_(silence), now_(std::move(now)), why_(std::move(why)), heard_(now_()) {}
  void put(WorkerFrame frame);
  // The job has failed; later errors are ignored. `over`: its number, if it is known to be over for all.
  void fail(Error error, std::uint64_t over = 0);
  void close();  // the job is over: lost tasks are no longer failures
  void wake();   // makes take() return, with or without a frame
  // The next frame; none after `timeout`, or if woken. Throws the error of a failed job, or deadline_exceeded after
  // `silence`: the coordinator, which has deadlines of its own, must be stuck.
  std::optional<WorkerFrame> take(std::chrono::nanoseconds timeout);
  // Throws the error of a failed job, waiting up to `patience` for one.
  void check(std::chrono::nanoseconds patience = {});
  std::uint64_t over() const;  // the largest passed to fail()

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
  std::chrono::steady_clock::time_point heard_;  // last put() or wake()
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
