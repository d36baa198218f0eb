// Events of a GPU's streams, as Event: threads that wait for them call what wants to know.
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

// CUDA's events, kept for the next. Thread-safe.
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
  // The calling thread waits.
  void await();
  // Calls what waits for it.
  void reach();

  CudaEventHandle native = nullptr;  // while the thread of its stream has it
  std::vector<BufferRef> keeps;      // memory that the work before it uses
  std::function<Error()> look;       // for what that work has found wrong; called when it is reached

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool reached_ = false;
  Error error_;
  std::vector<std::function<void()>> callbacks_;
};

// A stream, and the thread that waits for its events one after the other.
class CudaStream {
 public:
  // `on_error` is told of what went wrong on the GPU before an event; the event is reached all the same.
  CudaStream(std::shared_ptr<CudaDriver> driver, int ordinal, CudaEventPool& pool, const std::string& name,
             std::function<void(const Error&)> on_error);
  // Waits for all events.
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CudaStreamHandle native() const { return native_; }
  // Work launched so far lies before the event. Throws what the driver throws: the event is never reached then.
  void record(const std::shared_ptr<CudaEvent>& event);
  // Later work of this stream comes after what `other` has been given so far.
  void follow(const CudaStream& other);
  // Waits for all events; records no more.
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
