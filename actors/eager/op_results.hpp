// The outputs of an op that runs on a device while its caller goes on, and how many such ops there are.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

using AroundWaits = std::function<void(const std::function<bool(std::chrono::milliseconds)>& wait)>;  // EagerOptions

// Thread-safe. Set once, when the device has been given the work, and finished when it has done it; or failed. A value
// is kept until its reader forgets it.
class OpResults {
 public:
  OpResults(Device& device, std::size_t outputs, std::shared_ptr<const AroundWaits> around_waits)
      : device_(device), around_waits_(std::move(around_waits)), outputs_(outputs) {}

  Device& device() const { return device_; }
  void set(std::vector<Tensor> values);
  // `fault`: what the device has found in its data; null: none.
  void finish(std::exception_ptr fault);
  void fail(std::exception_ptr error);

  // Return when it is set, or finished. Throw the error.
  void wait();
  void wait_for_end();
  // Where the device has it. On the thread of the device's stream, in ops behind this one.
  Tensor on_device(std::size_t output) const;
  std::exception_ptr error() const;
  // Waits for a copy on the host, which stays. Throws the error.
  const Tensor& on_host(std::size_t output);
  void forget(std::size_t output);
  // Whether its error was thrown to somebody who waited.
  bool seen() const;

 private:
  struct Value {
    Tensor here{};
    Tensor host{};
    bool forgotten = false;
  };

  void wait_until(const bool& flag);

  Device& device_;
  const std::shared_ptr<const AroundWaits> around_waits_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Value> outputs_;
  std::exception_ptr error_;
  bool set_ = false, finished_ = false;
  bool seen_ = false;
};

// The ops of one Eager whose callers have gone on. Thread-safe.
class OutstandingOps {
 public:
  explicit OutstandingOps(AroundWaits around_waits = {})
      : around_waits_(std::make_shared<const AroundWaits>(std::move(around_waits))) {}

  static constexpr int kMost = 1024;  // then callers wait for all: each holds its inputs

  // False: there are many.
  bool begin();
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  // `failed`: null, or the results of an op that failed for a reason of its own.
  void end(std::shared_ptr<OpResults> failed);
  void wait_for_all();
  const std::shared_ptr<const AroundWaits>& around_waits() const { return around_waits_; }
  // The same. Throws the first error that nobody has seen.
  void wait();

 private:
  static constexpr std::size_t kMostErrors = 16;

  const std::shared_ptr<const AroundWaits> around_waits_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::atomic<int> count_{0};  // written under the mutex
  std::vector<std::shared_ptr<OpResults>> failed_;
};

}  // namespace troupe
