// A device: memory and a way to run kernels. The interface is that of an asynchronous accelerator; a CPU fits it easily.
//
// Work is enqueued on streams. Work of one stream runs in the order of enqueueing; streams run beside each other, and
// events order them. Enqueueing never waits for the work. Callbacks of events run on a thread of the device and must be
// short: they send a message. All methods are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/allocator.hpp"
#include "messages/device_name.hpp"

namespace troupe {

struct DeviceAttributes {
  DeviceName name;  // complete
  std::string type;  // "CPU", "GPU": what kernels are registered for
  std::uint64_t memory_bytes = 0;
  bool synchronous = false;  // a kernel has ended when its functor returns
};

// A point in a stream. Cheap to copy.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool reached() const = 0;
  // Calls `callback` once the point is reached; at once if it has been.
  virtual void on_reached(std::function<void()> callback) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Runs `work` on the device's thread of this stream, in order. `work` must not throw. For a GPU, `work` launches
  // kernels on the stream's native queue, and later work may start before they end on the GPU but is ordered after them.
  virtual void enqueue(std::function<void()> work) = 0;
  virtual std::shared_ptr<Event> record() = 0;
  virtual void wait(const std::shared_ptr<Event>& event) = 0;
};

// Splits a kernel's work over the device's threads. Parts are fixed by (total, grain) alone, so that results do not
// depend on the number of threads.
class Parallelism {
 public:
  virtual ~Parallelism() = default;
  virtual int threads() const = 0;
  // Calls fn(begin, end) for consecutive parts of [0, total), each of `grain` items but the last; returns when all have
  // ended. Rethrows the first exception. Parts may run on several threads at once, or all on this one.
  virtual void parallel_for(std::int64_t total, std::int64_t grain,
                            const std::function<void(std::int64_t, std::int64_t)>& fn) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceAttributes& attributes() const = 0;
  virtual Allocator& allocator() = 0;
  virtual Stream& compute() = 0;
  virtual Parallelism& parallelism() = 0;
  // Copies between this device and the host, asynchronously and in parallel to compute. `done` gets the copy, or an
  // error, on a thread of the device. On a CPU both hand back the same tensor at once.
  using CopyDone = std::function<void(Tensor, Error)>;
  virtual void copy_to_host(Tensor source, CopyDone done) = 0;
  virtual void copy_from_host(Tensor source, CopyDone done) = 0;
  // Ends the device's threads once running work has returned; work not yet begun is dropped. Callable twice.
  virtual void shutdown() = 0;
};

}  // namespace troupe
