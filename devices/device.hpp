// A device: memory and a way to run kernels. The interface is that of an asynchronous accelerator; a CPU fits it
// easily.
//
// Work is enqueued on streams. Work of one stream runs in the order of enqueueing; streams run concurrently, and events
// order them. Enqueueing never waits for the work. Event callbacks run on a thread of the device and must be short:
// they send a message. All methods are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/allocator.hpp>
#include <troupe/devices/recording.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/messages/function_ref.hpp>
#include <troupe/messages/local.hpp>

namespace troupe {

class CommunicatorMaker;

struct DeviceAttributes {
  DeviceName name{};   // complete
  std::string type{};  // "CPU", "GPU": the type that kernels are registered for
  std::uint64_t memory_bytes = 0;
  bool synchronous = false;  // a kernel has ended when its functor returns
};

// A point in a stream. Cheap to copy.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool reached() const = 0;
  // Calls `callback` once the point is reached; at once if it already has been.
  virtual void on_reached(std::function<void()> callback) = 0;
  // For a reached event of Stream::record(): the data fault found by work since the previous event, for kernels that
  // cannot throw because nothing waits for them.
  virtual Error error() const { return {}; }
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Runs `work` on the device's thread for this stream, in order. It must not throw. On a GPU, `work` launches kernels
  // on the stream's native queue, and later work may start before they end on the GPU but is ordered after them. A
  // stopped stream drops work it is given and work it has not begun.
  virtual void enqueue(LocalHandle work) = 0;
  // Lends the stream to the calling thread, if nothing runs or waits on it: what is enqueued from then on waits. If so,
  // the caller must call run_lent() next. Streams of devices that run on by themselves are never lent.
  virtual bool lend() { return false; }
  // Runs the work on the calling thread as on the stream's own, and gives the stream back.
  virtual void run_lent(LocalHandle /*work*/) {}
  // On the stream's thread, in work of `owner`: whether work waits that may run before this work ends, if it pauses.
  virtual bool others_wait(std::uint64_t /*owner*/) { return false; }
  virtual std::shared_ptr<Event> record() = 0;
  virtual void wait(const std::shared_ptr<Event>& event) = 0;
};

// Work in pieces, some of which become ready only after others: the nodes of a plan. All methods are called by several
// threads at once.
class DynamicWork {
 public:
  virtual ~DynamicWork() = default;
  // Runs pieces until none is ready; false if there was none. Must not throw.
  virtual bool run_some() = 0;
  virtual bool ready() const = 0;     // a piece could run now
  virtual bool finished() const = 0;  // no piece is left or running
};

// Splits work over the device's threads. Even when nested, no more than threads() threads run at once.
class Parallelism {
 public:
  virtual ~Parallelism() = default;
  virtual int threads() const = 0;
  // Calls fn(begin, end) for consecutive parts of [0, total), each of `grain` items but the last; returns when all have
  // ended. Rethrows the first exception. Parts may run on several threads at once, or all on this one. They are
  // determined by (total, grain) alone, so that results do not depend on the number of threads.
  using Range = FunctionRef<void(std::int64_t begin, std::int64_t end)>;
  virtual void parallel_for(std::int64_t total, std::int64_t grain, Range fn) = 0;
  // Runs `work` to its end, on this thread and idle ones.
  virtual void run(DynamicWork& work) = 0;
  // Called by pieces of running work when others have become ready or all are done.
  virtual void wake() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceAttributes& attributes() const = 0;
  virtual Allocator& allocator() = 0;
  // All allocators of this device's memory, for statistics. They share one limit.
  virtual std::vector<const Allocator*> allocators() { return {&allocator()}; }
  virtual Stream& compute() = 0;
  virtual Parallelism& parallelism() = 0;
  // Copies between this device and others, asynchronously and in parallel to compute. `done` gets the copy or an error,
  // at once or on a thread of the device. On a CPU all return the same tensor at once.
  using CopyDone = std::function<void(Tensor, Error)>;
  // Copies a result of compute() to the host. Fails also if the work has found a fault in its data, as does
  // hand_over(), so that results of bad data do not leave the device. Such faults are noticed on the thread of
  // compute() only.
  virtual void copy_to_host(Tensor source, CopyDone done) = 0;
  // Copies from the host, or from another device of this type after its hand_over().
  virtual void copy_in(Tensor source, CopyDone done) = 0;
  // Hands over to other devices of this type in this process: `done` gets the same tensor once it has been computed.
  virtual void hand_over(Tensor source, CopyDone done) { copy_to_host(std::move(source), std::move(done)); }
  // On the thread of compute() only. Returns a copy that later work may read, before it has been made.
  virtual Tensor upload(const Tensor& source) { return source; }
  // On the thread of compute() only. Waits for a copy on the host: for kernels that need a value to continue.
  virtual Tensor read(const Tensor& source) { return source; }
  // Host memory that this device copies from and to directly; null: any will do. Copies of other host memory pass
  // through it.
  virtual Allocator* pinned() { return nullptr; }
  // On the thread of compute() only. Null: no recordings.
  virtual std::unique_ptr<WorkRecorder> make_recorder() { return nullptr; }
  virtual RecordingStats recording_stats() const { return {}; }
  // Collectives with other devices that bypass the host (devices/collective/communicator.hpp); null: none.
  virtual CommunicatorMaker* communicators() { return nullptr; }
  // Why the device is lost; none while it works. Work given to a lost device ends without computing anything.
  virtual Error failure() const { return {}; }
  // Ends the device's threads once running work has returned; work not yet begun is dropped. Callable twice.
  virtual void shutdown() = 0;
};

}  // namespace troupe
