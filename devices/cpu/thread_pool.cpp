#include "troupe/devices/cpu/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include <troupe/devices/cpu/blocked_signals.hpp>
#include <troupe/devices/cpu/openmp.hpp>
#ifdef __SSE__
#include <immintrin.h>
#endif

namespace troupe {

class ThreadPool::Parts final : public Job {
 public:
  Parts(std::int64_t total, std::int64_t grain, Range fn) : total_(total), grain_(grain), fn_(fn) {}
  bool ready() const override { return next_.load(std::memory_order_relaxed) < total_; }
  void help() override {
    for (;;) {
      const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= total_) return;
      try {
        fn_(begin, std::min(begin + grain_, total_));
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_.store(total_, std::memory_order_relaxed);
      }
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::int64_t total_;
  const std::int64_t grain_;
  const Range fn_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

class ThreadPool::Dynamic final : public Job {
 public:
  explicit Dynamic(DynamicWork& work) : work_(work) {}
  bool ready() const override { return work_.ready(); }
  void help() override {
    while (work_.run_some()) {
    }
  }

 private:
  DynamicWork& work_;
};

ThreadPool::ThreadPool(int threads, const std::string& name, std::shared_ptr<const std::atomic<bool>> alone)
    : alone_(std::move(alone)) {
  jobs_.reserve(64);
  for (int i = 1; i < threads; ++i)
    helpers_.emplace_back([this, label = name + "+" + std::to_string(i)] {
      prepare_kernel_thread(label);
      std::unique_lock lock(mutex_);
      help_until(lock, [this] { return stopping_; });
    });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& t : helpers_) t.join();
}

// Returns the innermost job with ready work: its outer jobs wait for it.
ThreadPool::Job* ThreadPool::ready_job() const {
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it)
    if ((*it)->ready()) return *it;
  return nullptr;
}

void ThreadPool::help_until(std::unique_lock<std::mutex>& lock, FunctionRef<bool()> over) {
  while (!over()) {
    if (Job* job = ready_job()) {
      join(lock, *job);
      continue;
    }
    // Idle is set before looking again: a thread that makes work ready after that look sees it (see wake()).
    idle_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready_job() && !over()) wake_.wait(lock);
    idle_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void ThreadPool::join(std::unique_lock<std::mutex>& lock, Job& job) {
  ++job.helpers;
  lock.unlock();
  job.help();
  lock.lock();
  if (--job.helpers == 0) left_.notify_all();
}

void ThreadPool::wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (idle_.load(std::memory_order_relaxed) == 0 || alone()) return;
  { std::lock_guard lock(mutex_); }  // threads that looked before this work was ready are asleep by now
  wake_.notify_all();
}

void ThreadPool::withdraw(std::unique_lock<std::mutex>& lock, Job& job) {
  std::erase(jobs_, &job);  // no other thread can join any more
  left_.wait(lock, [&job] { return job.helpers == 0; });
}

void ThreadPool::parallel_for(std::int64_t total, std::int64_t grain, Range fn) {
  grain = std::max<std::int64_t>(grain, 1);
  if (helpers_.empty() || total <= grain || alone()) {
    for (std::int64_t begin = 0; begin < total; begin += grain) fn(begin, std::min(begin + grain, total));
    return;
  }
  Parts parts(total, grain, fn);
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(&parts);
  }
  wake();
  parts.help();
  std::unique_lock lock(mutex_);
  withdraw(lock, parts);
  parts.rethrow();
}

void ThreadPool::run(DynamicWork& work) {
  Dynamic job(work);
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  if (idle_.load(std::memory_order_relaxed) > 0 && !alone())
    wake_.notify_all();  // several pieces may be ready at the start
  help_until(lock, [&work] { return work.finished(); });
  withdraw(lock, job);
}

void prepare_kernel_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  omp_set_num_threads(1);
  BlockedSignals::for_good();
}

namespace {

#ifdef __SSE__
constexpr unsigned kFloatsByDefault = 0x1f80;  // MXCSR: round to nearest, keep denormals, mask exceptions
constexpr unsigned kFlags = 0x3f;              // of exceptions so far
unsigned floats() { return _mm_getcsr() & ~kFlags; }
void set_floats(unsigned how) { _mm_setcsr(how); }
#else
constexpr unsigned kFloatsByDefault = 0;
unsigned floats() { return 0; }
void set_floats(unsigned) {}
#endif

}  // namespace

KernelThreadGuard::KernelThreadGuard() : threads_(omp_get_max_threads()), floats_(floats()) {
  if (threads_ != 1) omp_set_num_threads(1);
  if (floats_ != kFloatsByDefault) set_floats(kFloatsByDefault);
}

KernelThreadGuard::~KernelThreadGuard() {
  if (threads_ != 1) omp_set_num_threads(threads_);
  if (floats_ != kFloatsByDefault) set_floats(floats_);
}

}  // namespace troupe
