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

void SimulatedCuda::launch(CudaStreamHandle stream, std::function<void()> kernel) { of(stream).add(std::move(kernel)); }
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
  return {.name = fmt::format("Simulated {}", ordinal), .compute_major = 9, .multiprocessors = 2, .memory_bytes = memory_bytes_};
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
void SimulatedCuda::destroy(CudaStreamHandle stream) noexcept { delete &of(stream); }
CudaEventHandle SimulatedCuda::make_event() {
  ++events_made_;
  return reinterpret_cast<CudaEventHandle>(new Point);
}
void SimulatedCuda::destroy(CudaEventHandle event) noexcept { delete &of(event); }

void SimulatedCuda::record(CudaEventHandle event, CudaStreamHandle stream) {
  throw_if_lost();
  auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(of(event).mutex);
    of(event).last = mark;
  }
  of(stream).add([mark] { mark->reach(); });
}
bool SimulatedCuda::reached(CudaEventHandle event) {
  throw_if_lost();
  const auto mark = of(event).get();
  const std::lock_guard lock(mark->mutex);
  return mark->reached;
}
void SimulatedCuda::await(CudaEventHandle event) {
  of(event).get()->await();
  throw_if_lost();
}
void SimulatedCuda::wait(CudaStreamHandle stream, CudaEventHandle event) {
  throw_if_lost();
  of(stream).add([mark = of(event).get()] { mark->await(); });
}

void SimulatedCuda::copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) {
  throw_if_lost();
  ++copies_;
  of(stream).add([=] { std::memcpy(to, from, bytes); });
}
void SimulatedCuda::clear(void* at, std::size_t bytes, CudaStreamHandle stream) {
  throw_if_lost();
  of(stream).add([=] { std::memset(at, 0, bytes); });
}
void SimulatedCuda::copy_peer(void* to, int, const void* from, int, std::size_t bytes, CudaStreamHandle stream) {
  ++peer_copies_;
  copy(to, from, bytes, stream);
}

}  // namespace troupe::testing
