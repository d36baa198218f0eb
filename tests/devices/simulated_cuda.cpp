#include "tests/devices/simulated_cuda.hpp"

#include <cstdlib>
#include <cstring>

namespace troupe::testing {

struct SimulatedCuda::Mark {
  std::mutex mutex;
  std::condition_variable wake;
  bool reached = false;
  void reach() {
    const std::lock_guard lock(mutex);
    reached = true;
    wake.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return reached; });
  }
};

struct SimulatedCuda::Point {
  std::mutex mutex;
  std::shared_ptr<Mark> last;
  std::shared_ptr<Mark> get() {
    const std::lock_guard lock(mutex);
    return last;
  }
};

struct SimulatedCuda::Graph {
  // Streams that run it keep it.
  std::shared_ptr<std::vector<std::function<void()>>> work = std::make_shared<std::vector<std::function<void()>>>();
};

struct SimulatedCuda::Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<std::function<void()>> undo;
  bool invalid = false;
};

class SimulatedCuda::StreamThread {
 public:
  StreamThread() : thread_([this] { run(); }) {}
  ~StreamThread() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      held_ = false;
    }
    wake_.notify_all();
    thread_.join();
  }
  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    wake_.notify_all();
  }
  void hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    wake_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !held_ && (ending_ || !work_.empty()); });
        if (work_.empty()) return;
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool held_ = false;
  bool ending_ = false;
  std::thread thread_;
};

SimulatedCuda::~SimulatedCuda() {
  for (const auto& [data, bytes] : memory_) std::free(data);
}

void SimulatedCuda::add(CudaStreamHandle stream, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = captures_.find(stream); found != captures_.end())
      return found->second->graph->work->push_back(std::move(work));
  }
  of(stream).add(std::move(work));
}
void SimulatedCuda::launch(CudaStreamHandle stream, std::function<void()> kernel) { add(stream, std::move(kernel)); }
void SimulatedCuda::synchronize() {
  std::vector<std::shared_ptr<Mark>> marks;
  {
    const std::lock_guard lock(mutex_);
    for (CudaStreamHandle stream : streams_) {
      marks.push_back(std::make_shared<Mark>());
      of(stream).add([mark = marks.back()] { mark->reach(); });
    }
  }
  for (const auto& mark : marks) mark->await();
}
bool SimulatedCuda::captures(CudaStreamHandle stream, std::function<void()> undo) {
  const std::lock_guard lock(mutex_);
  const auto found = captures_.find(stream);
  if (found == captures_.end()) return false;
  if (undo) found->second->undo.push_back(std::move(undo));
  return true;
}
void SimulatedCuda::refuse_capture(CudaStreamHandle stream, const char* call) {
  const std::lock_guard lock(mutex_);
  const auto found = captures_.find(stream);
  if (found == captures_.end()) return;
  found->second->invalid = true;
  fail(Code::unavailable, "{}: operation not permitted when stream is capturing (cudaErrorStreamCaptureUnsupported)",
       call);
}
std::shared_ptr<SimulatedCuda::Capture> SimulatedCuda::take_capture(CudaStreamHandle stream) {
  std::shared_ptr<Capture> capture;
  {
    const std::lock_guard lock(mutex_);
    capture = std::move(captures_.extract(stream).mapped());
  }
  while (!capture->undo.empty()) {
    capture->undo.back()();
    capture->undo.pop_back();
  }
  return capture;
}

void SimulatedCuda::begin_capture(CudaStreamHandle stream) {
  throw_if_lost();
  const std::lock_guard lock(mutex_);
  captures_[stream] = std::make_shared<Capture>();
}
CudaGraphHandle SimulatedCuda::end_capture(CudaStreamHandle stream) {
  const std::shared_ptr<Capture> capture = take_capture(stream);
  throw_if_lost();
  if (capture->invalid || failing_captures_-- > 0)
    fail(Code::unavailable, "cudaStreamEndCapture: the capture failed (cudaErrorStreamCaptureInvalidated)");
  failing_captures_ = 0;
  ++graphs_alive_;
  return reinterpret_cast<CudaGraphHandle>(capture->graph.release());
}
void SimulatedCuda::drop_capture(CudaStreamHandle stream) noexcept { take_capture(stream); }
void SimulatedCuda::launch(CudaGraphHandle graph, CudaStreamHandle stream) {
  throw_if_lost();
  if (failing_launches_-- > 0)
    fail(Code::resource_exhausted, "cudaGraphLaunch: out of memory (cudaErrorMemoryAllocation)");
  failing_launches_ = 0;
  ++graphs_launched_;
  of(stream).add([work = of(graph).work] {
    for (const auto& each : *work) each();
  });
}
void SimulatedCuda::destroy(CudaGraphHandle graph) noexcept {
  delete &of(graph);
  --graphs_alive_;
}
void SimulatedCuda::hold(CudaStreamHandle stream, bool held) { of(stream).hold(held); }
CudaStreamHandle SimulatedCuda::stream(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return streams_.at(index);
}
void SimulatedCuda::lose() { lost_ = true; }
std::size_t SimulatedCuda::bytes_allocated() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [data, bytes] : memory_) sum += bytes;
  return sum;
}
void SimulatedCuda::throw_if_lost() const {
  if (lost_) fail(Code::unavailable, "cudaSimulated: an illegal memory access was encountered");
}

int SimulatedCuda::device_count(std::string* why_none) {
  if (devices_ == 0 && why_none) *why_none = "no GPU";
  return devices_;
}
CudaProperties SimulatedCuda::properties(int ordinal) {
  // Each device that is made is a GPU of its own.
  return {.name = fmt::format("Simulated {}", ordinal),
          .uuid = fmt::format("simulated-{}", ++asked_),
          .compute_major = 9,
          .multiprocessors = 2,
          .memory_bytes = memory_bytes_};
}

void* SimulatedCuda::allocate(std::size_t bytes) {
  throw_if_lost();
  const std::size_t all = bytes_allocated();
  if (bytes > memory_bytes_ || all > memory_bytes_ - bytes) return nullptr;
  void* data = std::aligned_alloc(64, bytes);
  std::memset(data, 0xee, bytes);
  const std::lock_guard lock(mutex_);
  memory_[data] = bytes;
  return data;
}
void SimulatedCuda::free(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  memory_.erase(data);
  std::free(data);
}

CudaStreamHandle SimulatedCuda::make_stream() {
  auto* stream = reinterpret_cast<CudaStreamHandle>(new StreamThread);
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return stream;
}
void SimulatedCuda::destroy(CudaStreamHandle stream) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::erase(streams_, stream);
  }
  delete &of(stream);
}
CudaEventHandle SimulatedCuda::make_event() {
  ++events_made_;
  return reinterpret_cast<CudaEventHandle>(new Point);
}
void SimulatedCuda::destroy(CudaEventHandle event) noexcept { delete &of(event); }

void SimulatedCuda::record(CudaEventHandle event, CudaStreamHandle stream) {
  throw_if_lost();
  refuse_capture(stream, "cudaEventRecord");
  auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(of(event).mutex);
    of(event).last = mark;
  }
  of(stream).add([mark] { mark->reach(); });
}
void SimulatedCuda::await(CudaEventHandle event) {
  of(event).get()->await();
  throw_if_lost();
}
void SimulatedCuda::wait(CudaStreamHandle stream, CudaEventHandle event) {
  throw_if_lost();
  refuse_capture(stream, "cudaStreamWaitEvent");
  of(stream).add([mark = of(event).get()] { mark->await(); });
}

void SimulatedCuda::copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) {
  throw_if_lost();
  ++copies_;
  add(stream, [=] { std::memcpy(to, from, bytes); });
}
void SimulatedCuda::clear(void* at, std::size_t bytes, CudaStreamHandle stream) {
  throw_if_lost();
  add(stream, [=] { std::memset(at, 0, bytes); });
}
void SimulatedCuda::copy_peer(void* to, int, const void* from, int, std::size_t bytes, CudaStreamHandle stream) {
  ++peer_copies_;
  copy(to, from, bytes, stream);
}

}  // namespace troupe::testing
