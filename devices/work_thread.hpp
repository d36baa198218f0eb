// A thread that runs work in order. Work is taken from the queue in batches: while the thread is busy, enqueueing
// neither waits nor wakes.
//
// Work may pause (LocalWork::paused). It then lets work of other owners that waits run first, up to the next work of
// nobody.
//
// While it sleeps it can be lent to another thread, which runs one work itself instead of waking it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/messages/local.hpp>

namespace troupe {

class WorkThread {
 public:
  // Calls `begin` on the thread first.
  explicit WorkThread(std::function<void()> begin);
  ~WorkThread() { stop(); }
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // A stopped thread drops work it is given and work it has not begun.
  void enqueue(LocalHandle work);
  // Lends this thread's place to the caller, if it sleeps and has nothing to do: what is enqueued from then on waits.
  // If so, the caller must call run_lent() next. Waits for another borrower a short while: waking a thread takes longer
  // than a short work.
  bool lend();
  // Runs the work on the calling thread and gives the place back. Work that pauses is continued by this thread.
  void run_lent(LocalHandle work);
  // On this thread, or the one that it is lent to: whether work waits that would run first if the running work, of
  // `owner`, paused.
  bool others_wait(std::uint64_t owner);
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  // Returns when running work has ended, unless called by that work. Callable twice.
  void stop();

 private:
  void run(const std::function<void()>& begin);
  void put_back(LocalHandle paused);
  void give_back();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<LocalHandle> queue_;
  std::atomic<std::uint64_t> enqueued_{0};  // so far; written under the mutex
  // Used alone by the thread, or the one that it is lent to: the work taken from the queue, and the next of it to run.
  std::vector<LocalHandle> batch_;
  std::size_t next_ = 0;
  // Of others_wait(), for an owner and what was enqueued by then.
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  struct Answer {
    std::uint64_t owner = 0, enqueued = kNever;
    bool others = false;
  };
  Answer answer_;
  bool sleeping_ = false;
  std::thread::id borrower_;  // whom it is lent to
  bool stopping_ = false;
  std::atomic<bool> stopped_{false};
  std::thread thread_;  // last: it uses the other members
};

}  // namespace troupe
