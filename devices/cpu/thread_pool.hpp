// The threads of a CPU device: T threads run tasks and help each other inside kernels.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "devices/device.hpp"

namespace troupe {

// T - 1 helpers; the thread that calls parallel_for is the other one. Idle helpers sleep.
class ThreadPool final : public Parallelism {
 public:
  ThreadPool(int threads, const std::string& name);
  ~ThreadPool() override;

  int threads() const override { return static_cast<int>(helpers_.size()) + 1; }
  void parallel_for(std::int64_t total, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& fn) override;

 private:
  struct Job;
  void help();
  static void work_on(Job& job);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

// Names the calling thread (shown by debuggers and ps) and keeps OpenMP inside it to one thread: kernels split their work
// through Parallelism only.
void prepare_kernel_thread(const std::string& name);

}  // namespace troupe
