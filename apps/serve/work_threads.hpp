// Threads for what takes too long for those that call: of connections, of devices.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe {

// Thread-safe.
class WorkThreads {
 public:
  // At most `most` pieces of work wait.
  WorkThreads(unsigned threads, std::size_t most);
  ~WorkThreads();  // drops what waits
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  // False: too much waits; it is not done. Work must not throw.
  [[nodiscard]] bool post(std::function<void()> work);
  // Does it here if it is small, or if too much waits.
  template <class Work>
  void run(bool small, const Work& work) {
    if (small || !post(work)) work();
  }

 private:
  void work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe
