#include "troupe/devices/work_thread.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

namespace troupe {
namespace {

// How long lend() waits for another borrower to give the place back. Short steps take some microseconds; then the
// other has probably lost its processor.
constexpr std::chrono::microseconds kSpins{5}, kPatience{100};

}  // namespace

WorkThread::WorkThread(std::function<void()> begin) : thread_([this, begin = std::move(begin)] { run(begin); }) {}

void WorkThread::enqueue(LocalHandle work) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
    enqueued_.store(enqueued_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    wake = sleeping_ && borrower_ == std::thread::id();
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
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return borrower_ == std::thread::id() || borrower_ == std::this_thread::get_id(); });
}

bool WorkThread::lend() {
  std::optional<std::chrono::steady_clock::time_point> since;
  const std::thread::id caller = std::this_thread::get_id();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || !sleeping_ || !queue_.empty() || borrower_ == caller) return false;
      if (borrower_ == std::thread::id()) {
        borrower_ = caller;
        return true;
      }
    }
    const auto now = std::chrono::steady_clock::now();
    if (!since) since = now;
    if (now - *since >= kPatience) return false;
    if (now - *since >= kSpins) std::this_thread::yield();
  }
}

void WorkThread::run_lent(LocalHandle work) {
  work->run();
  if (work->paused()) put_back(std::move(work));
  work.reset();
  give_back();
}

void WorkThread::give_back() {
  std::vector<LocalHandle> dropped;
  const std::lock_guard lock(mutex_);
  if (!batch_.empty()) {
    queue_.insert(queue_.begin(), std::make_move_iterator(batch_.begin()), std::make_move_iterator(batch_.end()));
    batch_.clear();
  }
  answer_.enqueued = kNever;
  if (stopping_) dropped.swap(queue_);
  borrower_ = std::thread::id();
  // Under the lock: a thread that stops this one may destroy it then.
  if (stopping_ || !queue_.empty()) wake_.notify_all();
}

namespace {

bool of_nobody(const LocalHandle& work) { return work->owner() == 0; }

}  // namespace

bool WorkThread::others_wait(std::uint64_t owner) {
  const std::uint64_t enqueued = enqueued_.load(std::memory_order_relaxed);
  if (answer_.enqueued == enqueued && answer_.owner == owner) return answer_.others;
  const auto other = [owner](const LocalHandle& work) { return work->owner() != owner; };
  const auto next = batch_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto barrier = std::find_if(next, batch_.end(), of_nobody);
  bool others = std::any_of(next, barrier, other);
  if (!others && barrier == batch_.end()) {
    std::lock_guard lock(mutex_);
    others = std::any_of(queue_.begin(), std::find_if(queue_.begin(), queue_.end(), of_nobody), other);
  }
  answer_ = {owner, enqueued, others};
  return others;
}

void WorkThread::put_back(LocalHandle paused) {
  batch_.erase(batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(std::exchange(next_, 0)));
  {
    std::lock_guard lock(mutex_);
    batch_.insert(batch_.end(), std::make_move_iterator(queue_.begin()), std::make_move_iterator(queue_.end()));
    queue_.clear();
  }
  const auto others_end =
      std::stable_partition(batch_.begin(), std::find_if(batch_.begin(), batch_.end(), of_nobody),
                            [owner = paused->owner()](const LocalHandle& work) { return work->owner() != owner; });
  batch_.insert(others_end, std::move(paused));
  answer_.enqueued = kNever;
}

void WorkThread::run(const std::function<void()>& begin) {
  begin();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      sleeping_ = true;
      wake_.wait(lock, [this] { return stopping_ || (!queue_.empty() && borrower_ == std::thread::id()); });
      sleeping_ = false;
      if (stopping_) return;
      batch_.swap(queue_);
    }
    for (next_ = 0; next_ < batch_.size();) {
      LocalHandle work = std::move(batch_[next_++]);
      if (stopped_.load(std::memory_order_relaxed)) continue;
      work->run();
      if (work->paused()) put_back(std::move(work));
    }  // captures of work may be released on this thread
    batch_.clear();
    answer_.enqueued = kNever;
  }
}

}  // namespace troupe
