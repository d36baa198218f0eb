// Work that nobody waits for, one after another on a thread that the first starts.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <troupe/devices/work_thread.hpp>

namespace troupe {

// Thread-safe. Work must not throw.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() { close(); }

  // Dropped once this is closed.
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (!thread_) thread_ = std::make_unique<WorkThread>([] {});
    thread_->enqueue(std::make_shared<Work>(std::move(work)));
  }
  // Drops work that has not begun, and waits for what has, unless called by it. May be called twice.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    if (thread_) thread_->stop();  // no other thread makes or changes it now
  }

 private:
  struct Work final : LocalWork {
    explicit Work(std::function<void()> what) : what_(std::move(what)) {}
    void run() override { what_(); }
    std::function<void()> what_;
  };

  std::mutex mutex_;
  bool closed_ = false;
  std::unique_ptr<WorkThread> thread_;
};

}  // namespace troupe
