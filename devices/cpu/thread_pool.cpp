#include "devices/cpu/thread_pool.hpp"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace troupe {

struct ThreadPool::Job {
  std::int64_t total;
  std::int64_t grain;
  const std::function<void(std::int64_t, std::int64_t)>* fn;
  std::atomic<std::int64_t> next{0};
  int helpers = 0;  // inside work_on; guarded by the pool's mutex
  std::mutex mutex;
  std::condition_variable left;
  std::exception_ptr error;
};

ThreadPool::ThreadPool(int threads, const std::string& name) {
  for (int i = 1; i < threads; ++i)
    helpers_.emplace_back([this, label = name + "+" + std::to_string(i)] {
      prepare_kernel_thread(label);
      help();
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

void ThreadPool::work_on(Job& job) {
  for (;;) {
    const std::int64_t begin = job.next.fetch_add(job.grain, std::memory_order_relaxed);
    if (begin >= job.total) return;
    try {
      (*job.fn)(begin, std::min(begin + job.grain, job.total));
    } catch (...) {
      std::lock_guard lock(job.mutex);
      if (!job.error) job.error = std::current_exception();
      job.next.store(job.total, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job& job = *jobs_.front();
    if (job.next.load(std::memory_order_relaxed) >= job.total) {
      jobs_.pop_front();
      continue;
    }
    ++job.helpers;
    lock.unlock();
    work_on(job);
    lock.lock();
    if (--job.helpers == 0) job.left.notify_all();
  }
}

void ThreadPool::parallel_for(std::int64_t total, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& fn) {
  grain = std::max<std::int64_t>(grain, 1);
  if (helpers_.empty() || total <= grain) {
    for (std::int64_t begin = 0; begin < total; begin += grain) fn(begin, std::min(begin + grain, total));
    return;
  }
  Job job{.total = total, .grain = grain, .fn = &fn};
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  wake_.notify_all();
  work_on(job);
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);  // no helper can enter any more
  job.left.wait(lock, [&job] { return job.helpers == 0; });
  if (job.error) std::rethrow_exception(job.error);
}

void prepare_kernel_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  omp_set_num_threads(1);
}

}  // namespace troupe
