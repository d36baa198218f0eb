// A thread that runs work in order. Work is taken from the queue in batches: while the thread is busy, enqueueing
// neither waits nor wakes.
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
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  // Returns when running work has ended, unless called by that work. Callable twice.
  void stop();

 private:
  void run(const std::function<void()>& begin);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<LocalHandle> queue_;
  bool sleeping_ = false;
  bool stopping_ = false;
  std::atomic<bool> stopped_{false};
  std::thread thread_;  // last: it uses the other members
};

}  // namespace troupe
