// Ops of the benchmarks: nodes that only count themselves, and nodes that spin.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/graph/op.hpp>

namespace troupe::bench {

// Counts from many threads at almost no cost: each thread has its own counter.
class Tally {
 public:
  void add() {
    const std::size_t mine = thread_index < kThreads ? thread_index : index_of_new_thread();
    std::atomic<std::uint64_t>& counter = counters_[mine].value;
    if (mine == kShared) [[unlikely]]
      counter.fetch_add(1, std::memory_order_relaxed);
    else
      counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Exact once all counting threads have been waited for.
  std::uint64_t total() const;

 private:
  static constexpr std::size_t kThreads = 256;
  static constexpr std::size_t kShared = kThreads - 1;  // shared by all threads that come late
  static inline thread_local std::size_t thread_index = kThreads;
  static std::size_t index_of_new_thread();
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<Counter, kThreads> counters_;
};

// Keeps a core busy for `iterations` dependent multiplications.
void spin(std::int64_t iterations);
// The number of iterations that currently take `seconds` on this machine.
std::int64_t spin_iterations(double seconds);

// The standard ops and
//   BenchNull: no inputs, no outputs
//   BenchJoin: a, b -> a, as f32
//   BenchSpin: spins for attribute "iterations"
// None is pruned or shared by a pass.
std::shared_ptr<const OpRegistry> bench_ops();
// Options of a task with kernels for them. Each kernel run adds to the tally, which must outlive the task.
TaskOptions bench_task(int threads, Tally& tally);

}  // namespace troupe::bench
