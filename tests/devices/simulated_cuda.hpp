// A GPU that is none: memory of the host that only its streams may touch, streams that are threads, events between
// them. What CUDA leaves to chance (how long work takes) the test decides: a stream that is held runs nothing until it
// is let go.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/devices/cuda/cuda_driver.hpp>

namespace troupe::testing {

class SimulatedCuda final : public CudaDriver {
 public:
  explicit SimulatedCuda(int devices = 1, std::size_t memory_bytes = std::size_t{1} << 30)
      : devices_(devices), memory_bytes_(memory_bytes) {}
  ~SimulatedCuda() override;

  // A kernel.
  void launch(CudaStreamHandle stream, std::function<void()> kernel);
  void hold(CudaStreamHandle stream, bool held);
  // In the order they were made: of a device compute, to the host, from the host, from other devices.
  CudaStreamHandle stream(std::size_t index) const;
  // Waits for all streams.
  void synchronize();
  // Is what is launched on the stream kept? Then `undo` is called when that ends.
  bool captures(CudaStreamHandle stream, std::function<void()> undo = nullptr);
  // So many captures fail from now on.
  void fail_captures(int count) { failing_captures_ = count; }
  void fail_graph_launches(int count) { failing_launches_ = count; }
  void refuse_pinned(bool refused) { no_pinned_ = refused; }
  std::size_t graphs_launched() const { return graphs_launched_; }
  std::size_t graphs_alive() const { return graphs_alive_; }
  // What a kernel does that goes wrong: all that comes after it fails.
  void lose();
  void mend() { lost_ = false; }
  std::size_t events_made() const { return events_made_; }
  std::size_t bytes_allocated() const;
  std::size_t copies() const { return copies_; }
  std::size_t peer_copies() const { return peer_copies_; }

  int device_count(std::string* why_none) override;
  CudaProperties properties(int ordinal) override;
  void use(int) override {}
  bool fatal(const Error& error) const override { return lost_ && error.code() == Code::unavailable; }
  void* allocate(std::size_t bytes) override;
  void free(void* data) noexcept override;
  void* allocate_pinned(std::size_t bytes) override { return no_pinned_ ? nullptr : std::aligned_alloc(64, bytes); }
  void free_pinned(void* data) noexcept override { std::free(data); }
  CudaStreamHandle make_stream() override;
  void destroy(CudaStreamHandle stream) noexcept override;
  CudaEventHandle make_event() override;
  void destroy(CudaEventHandle event) noexcept override;
  void record(CudaEventHandle event, CudaStreamHandle stream) override;
  void await(CudaEventHandle event) override;
  void wait(CudaStreamHandle stream, CudaEventHandle event) override;
  void copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) override;
  void clear(void* at, std::size_t bytes, CudaStreamHandle stream) override;
  void copy_peer(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes,
                 CudaStreamHandle stream) override;
  void begin_capture(CudaStreamHandle stream) override;
  CudaGraphHandle end_capture(CudaStreamHandle stream) override;
  void drop_capture(CudaStreamHandle stream) noexcept override;
  void launch(CudaGraphHandle graph, CudaStreamHandle stream) override;
  void destroy(CudaGraphHandle graph) noexcept override;
  bool enable_peer(int, int) override { return true; }

 private:
  class StreamThread;
  struct Mark;   // a record of an event: reached or not
  struct Point;  // an event: its last record
  struct Graph;  // work that is kept
  struct Capture;

  static StreamThread& of(CudaStreamHandle stream) { return *reinterpret_cast<StreamThread*>(stream); }
  static Point& of(CudaEventHandle event) { return *reinterpret_cast<Point*>(event); }
  static Graph& of(CudaGraphHandle graph) { return *reinterpret_cast<Graph*>(graph); }
  void throw_if_lost() const;
  // Runs it in the order of the stream, or keeps it.
  void add(CudaStreamHandle stream, std::function<void()> work);
  // CUDA refuses, and gives up the capture.
  void refuse_capture(CudaStreamHandle stream, const char* call);
  std::shared_ptr<Capture> take_capture(CudaStreamHandle stream);

  const int devices_;
  const std::size_t memory_bytes_;
  std::atomic<bool> lost_{false}, no_pinned_{false};
  std::atomic<std::size_t> events_made_{0};
  std::atomic<std::size_t> copies_{0};
  std::atomic<std::size_t> peer_copies_{0};
  std::atomic<std::size_t> asked_{0};
  mutable std::mutex mutex_;
  std::map<void*, std::size_t> memory_;
  std::vector<CudaStreamHandle> streams_;
  std::map<CudaStreamHandle, std::shared_ptr<Capture>> captures_;
  std::atomic<int> failing_captures_{0}, failing_launches_{0};
  std::atomic<std::size_t> graphs_launched_{0}, graphs_alive_{0};
};

}  // namespace troupe::testing
