// The threads of a CPU device: T threads run tasks and help each other inside kernels.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <troupe/devices/device.hpp>

namespace troupe {

// T - 1 helpers; the thread that calls parallel_for or run is the other one. Idle helpers sleep.
class ThreadPool final : public Parallelism {
 public:
  // `alone`: while it is true, helpers sleep. Null: never.
  ThreadPool(int threads, const std::string& name, std::shared_ptr<const std::atomic<bool>> alone = nullptr);
  ~ThreadPool() override;

  int threads() const override { return static_cast<int>(helpers_.size()) + 1; }
  void parallel_for(std::int64_t total, std::int64_t grain, Range fn) override;
  void run(DynamicWork& work) override;
  void wake() override;

 private:
  // Work that helpers may join: the parts of a parallel_for, or dynamic work.
  class Job {
   public:
    virtual ~Job() = default;
    virtual bool ready() const = 0;
    virtual void help() = 0;  // returns when nothing is ready
    int helpers = 0;          // inside help(); guarded by the pool's mutex
  };
  class Parts;
  class Dynamic;

  void help_until(std::unique_lock<std::mutex>& lock, FunctionRef<bool()> over);
  void join(std::unique_lock<std::mutex>& lock, Job& job);
  Job* ready_job() const;
  void withdraw(std::unique_lock<std::mutex>& lock, Job& job);

  bool alone() const { return alone_ && alone_->load(std::memory_order_relaxed); }

  const std::shared_ptr<const std::atomic<bool>> alone_;
  std::mutex mutex_;
  std::condition_variable wake_;  // a job is ready, dynamic work has ended, or the pool stops
  std::condition_variable left_;  // the last helper has left a job
  std::vector<Job*> jobs_;        // inner jobs come after those that contain them
  std::atomic<int> idle_{0};      // threads that wait for wake_ or are about to
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

// Names the calling thread (shown by debuggers and ps) and limits OpenMP inside it to one thread: kernels split their
// work through Parallelism only. It handles no signals (devices/cpu/blocked_signals.hpp).
void prepare_kernel_thread(const std::string& name);

// While alive, kernels run by the calling thread, which is not one of ours, give the same bits as on a thread of a
// device: OpenMP inside it has one thread, and floating-point numbers are rounded to the nearest, none to zero.
class KernelThreadGuard {
 public:
  KernelThreadGuard();
  ~KernelThreadGuard();
  KernelThreadGuard(const KernelThreadGuard&) = delete;
  KernelThreadGuard& operator=(const KernelThreadGuard&) = delete;

 private:
  int threads_;
  unsigned floats_;
};

}  // namespace troupe
