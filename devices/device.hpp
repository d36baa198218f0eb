// A device: memory and a way to run kernels. The interface is that of an asynchronous accelerator; a CPU fits it
// easily.
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

#include <troupe/devices/allocator.hpp>
#include <troupe/devices/recording.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/messages/function_ref.hpp>
#include <troupe/messages/local.hpp>

namespace troupe {

class CommunicatorMaker;

struct DeviceAttributes {
  DeviceName name{};   // complete
  std::string type{};  // "CPU", "GPU": what kernels are registered for
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
  // Of an event of Stream::record() that has been reached: what work since the one before it has found wrong with its
  // data, where kernels cannot throw because nobody waits for them.
  virtual Error error() const { return {}; }
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Runs `work` on the device's thread of this stream, in order. It must not throw. For a GPU, `work` launches kernels
  // on the stream's native queue, and later work may start before they end on the GPU but is ordered after them. What a
  // stream that has stopped is given, or has not begun when it stops, is dropped.
  virtual void enqueue(LocalHandle work) = 0;
  virtual std::shared_ptr<Event> record() = 0;
  virtual void wait(const std::shared_ptr<Event>& event) = 0;
};

// Work in pieces, some of which can be run only when others have been: the nodes of a plan. All methods are called by
// several threads at once.
class DynamicWork {
 public:
  virtual ~DynamicWork() = default;
  // Runs pieces until none is ready; false if there was none. Must not throw.
  virtual bool run_some() = 0;
  virtual bool ready() const = 0;     // a piece could be run now
  virtual bool finished() const = 0;  // no piece is left, and none runs
};

// Splits work over the device's threads. However it is nested, no more than threads() threads run at once.
class Parallelism {
 public:
  virtual ~Parallelism() = default;
  virtual int threads() const = 0;
  // Calls fn(begin, end) for consecutive parts of [0, total), each of `grain` items but the last; returns when all have
  // ended. Rethrows the first exception. Parts may run on several threads at once, or all on this one. They are fixed
  // by (total, grain) alone, so that results do not depend on the number of threads.
  using Range = FunctionRef<void(std::int64_t begin, std::int64_t end)>;
  virtual void parallel_for(std::int64_t total, std::int64_t grain, Range fn) = 0;
  // Runs `work` to its end, on this thread and those that are idle.
  virtual void run(DynamicWork& work) = 0;
  // Called by pieces of running work: others have become ready, or all are done.
  virtual void wake() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceAttributes& attributes() const = 0;
  virtual Allocator& allocator() = 0;
  // All that give this device's memory, for statistics. They have one limit.
  virtual std::vector<const Allocator*> allocators() { return {&allocator()}; }
  virtual Stream& compute() = 0;
  virtual Parallelism& parallelism() = 0;
  // Copies between this device and others, asynchronously and in parallel to compute. `done` gets the copy, or an
  // error, at once or on a thread of the device. On a CPU all hand back the same tensor at once.
  using CopyDone = std::function<void(Tensor, Error)>;
  // What work of compute() that has been run makes, to the host. An error also if that work has found something wrong
  // with its data, as of hand_over(): what bad data made does not leave. Noticed on the thread of compute() only.
  virtual void copy_to_host(Tensor source, CopyDone done) = 0;
  // From the host, or from another device of this type that has handed it over.
  virtual void copy_in(Tensor source, CopyDone done) = 0;
  // To other devices of this type in this process: `done` gets the same tensor once what makes it has ended.
  virtual void hand_over(Tensor source, CopyDone done) { copy_to_host(std::move(source), std::move(done)); }
  // On the thread of compute() only. A copy that work run from now on may read: returned before it is there.
  virtual Tensor upload(const Tensor& source) { return source; }
  // On the thread of compute() only. A copy on the host, waited for: for kernels that cannot go on without a value.
  virtual Tensor read(const Tensor& source) { return source; }
  // Memory of the host that copies to and from here go straight to; null: any is as good. Elsewhere they pass through
  // it.
  virtual Allocator* pinned() { return nullptr; }
  // On the thread of compute() only. Null: nothing is recorded here.
  virtual std::unique_ptr<WorkRecorder> make_recorder() { return nullptr; }
  virtual RecordingStats recording_stats() const { return {}; }
  // Collectives with other devices, past the host (devices/collective/communicator.hpp); null: it has none.
  virtual CommunicatorMaker* communicators() { return nullptr; }
  // Why nothing runs here any more; none while it works. Work that is given to a lost device ends, and computes
  // nothing.
  virtual Error failure() const { return {}; }
  // Ends the device's threads once running work has returned; work not yet begun is dropped. Callable twice.
  virtual void shutdown() = 0;
};

}  // namespace troupe
