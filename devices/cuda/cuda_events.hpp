// CUDA events as Event: threads wait for them and run their callbacks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <troupe/devices/cuda/cuda_driver.hpp>
#include <troupe/devices/device.hpp>

namespace troupe {

// Recycles CUDA events. Thread-safe.
class CudaEventPool {
 public:
  CudaEventPool(std::shared_ptr<CudaDriver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}
  ~CudaEventPool();
  CudaEventHandle take();
  void give_back(CudaEventHandle event);

 private:
  std::shared_ptr<CudaDriver> driver_;
  const int ordinal_;
  std::mutex mutex_;
  std::vector<CudaEventHandle> free_;
};

class CudaEvent final : public Event {
 public:
  bool reached() const override;
  void on_reached(std::function<void()> callback) override;
  Error error() const override;
  // Blocks the calling thread.
  void await();
  // Runs the callbacks.
  void reach();

  CudaEventHandle native = nullptr;  // while its stream's thread has it
  std::vector<BufferRef> keeps;      // memory used by the work before the event
  std::function<Error()> look;       // called when the event is reached: collects faults of that work

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool reached_ = false;
  Error error_;
  std::vector<std::function<void()>> callbacks_;
};

// A stream and a thread that waits for its events in order.
class CudaStream {
 public:
  // `on_error` is called with a GPU error that occurred before an event; the event is reached all the same.
  CudaStream(std::shared_ptr<CudaDriver> driver, int ordinal, CudaEventPool& pool, const std::string& name,
             std::function<void(const Error&)> on_error);
  // Waits for all events.
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CudaStreamHandle native() const { return native_; }
  // Places the event after all work launched so far. Rethrows the driver's errors; the event is then never reached.
  void record(const std::shared_ptr<CudaEvent>& event);
  // Orders later work of this stream after all work given to `other` so far.
  void follow(const CudaStream& other);
  // Waits for all events; none can be recorded afterwards.
  void stop();

 private:
  void run();

  std::shared_ptr<CudaDriver> driver_;
  const int ordinal_;
  CudaEventPool& pool_;
  const std::string name_;
  std::function<void(const Error&)> on_error_;
  CudaStreamHandle native_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<CudaEvent>> pending_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe
