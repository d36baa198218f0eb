#include "troupe/devices/work_thread.hpp"

#include <utility>

namespace troupe {

WorkThread::WorkThread(std::function<void()> begin) : thread_([this, begin = std::move(begin)] { run(begin); }) {}

void WorkThread::enqueue(LocalHandle work) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
    wake = sleeping_;
  }
  if (wake) wake_.notify_one();
}

void WorkThread::stop() {
  std::vector<LocalHandle> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  stopped_.store(true, std::memory_order_relaxed);
  dropped.clear();  // its destructors may call others: not under the lock
  wake_.notify_all();
  if (thread_.joinable() && !is_this_thread()) thread_.join();
}

void WorkThread::run(const std::function<void()>& begin) {
  begin();
  std::vector<LocalHandle> batch;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      sleeping_ = true;
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      sleeping_ = false;
      if (stopping_) return;
      batch.swap(queue_);
    }
    for (LocalHandle& work : batch) {
      if (!stopped_.load(std::memory_order_relaxed)) work->run();
      work = nullptr;  // its captures may be released on this thread
    }
    batch.clear();
  }
}

}  // namespace troupe
