#include "apps/serve/work_threads.hpp"

#include <utility>

namespace troupe {

WorkThreads::WorkThreads(unsigned threads, std::size_t most) : most_(most) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkThreads::~WorkThreads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkThreads::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= most_) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void WorkThreads::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const std::function<void()> next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next();
  }
}

}  // namespace troupe
