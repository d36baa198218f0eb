// A GPU that is none: memory of the host that only its streams may touch, streams that are threads, events between them. What CUDA leaves to
// chance (how long work takes) the test decides: a stream that is held runs nothing until it is let go.
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

#include "devices/cuda/cuda_driver.hpp"

namespace troupe::testing {

class SimulatedCuda final : public CudaDriver {
 public:
  explicit SimulatedCuda(int devices = 1, std::size_t memory_bytes = std::size_t{1} << 30) : devices_(devices), memory_bytes_(memory_bytes) {}
  ~SimulatedCuda() override;

  // A kernel.
  void launch(CudaStreamHandle stream, std::function<void()> kernel);
  void hold(CudaStreamHandle stream, bool held);
  // In the order they were made: of a device compute, to the host, from the host.
  CudaStreamHandle stream(std::size_t index) const;
  // What a kernel does that goes wrong: all that comes after it fails.
  void lose();
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
  void* allocate_pinned(std::size_t bytes) override { return std::aligned_alloc(64, bytes); }
  void free_pinned(void* data) noexcept override { std::free(data); }
  CudaStreamHandle make_stream() override;
  void destroy(CudaStreamHandle stream) noexcept override;
  CudaEventHandle make_event() override;
  void destroy(CudaEventHandle event) noexcept override;
  void record(CudaEventHandle event, CudaStreamHandle stream) override;
  bool reached(CudaEventHandle event) override;
  void await(CudaEventHandle event) override;
  void wait(CudaStreamHandle stream, CudaEventHandle event) override;
  void copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) override;
  void clear(void* at, std::size_t bytes, CudaStreamHandle stream) override;
  void copy_peer(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes, CudaStreamHandle stream) override;
  bool enable_peer(int, int) override { return true; }

 private:
  class StreamThread;
  struct Mark;   // a record of an event: reached or not
  struct Point;  // an event: its last record

  static StreamThread& of(CudaStreamHandle stream) { return *reinterpret_cast<StreamThread*>(stream); }
  static Point& of(CudaEventHandle event) { return *reinterpret_cast<Point*>(event); }
  void throw_if_lost() const;

  const int devices_;
  const std::size_t memory_bytes_;
  std::atomic<bool> lost_{false};
  std::atomic<std::size_t> events_made_{0};
  std::atomic<std::size_t> copies_{0};
  std::atomic<std::size_t> peer_copies_{0};
  mutable std::mutex mutex_;
  std::map<void*, std::size_t> memory_;
  std::vector<CudaStreamHandle> streams_;
};

}  // namespace troupe::testing
