// Kernels of a few lines for the standard ops, on i64, that write in place whenever they may; and a runner that lets a
// test choose the order of arrivals and segments.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/error_of.hpp"
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/scheduler/run/step_table.hpp>

namespace troupe::testing {

// What the kernels do beside computing.
struct ToyHooks {
  std::mutex mutex;                 // kernels of a segment may run side by side
  std::vector<std::string> ran;     // names of nodes, in order
  std::function<void()> on_square;  // called by Square before it computes
  std::atomic<int> in_place = 0;    // how often an input's memory became the output's
};

// Abs fails with invalid_argument for a negative value; Sign throws something that is not an Error; the rest computes.
KernelRegistry toy_kernels(ToyHooks& hooks);

// Computes one node from copies of its inputs: the oracle. Throws for ops that are no toy kernels.
std::vector<Tensor> toy_evaluate(const std::string& op, const std::vector<Tensor>& inputs);

inline const Shape kPair{2};

Tensor i64(std::initializer_list<std::int64_t> values);
std::vector<std::int64_t> numbers(const Tensor& tensor);

// Says of every node that it costs a millisecond: what can run side by side will.
void make_costly(Graph& g);

// Short forms to write graphs with. An empty name is made from the op's.
Output node(Graph& g, const std::string& op, std::vector<Output> inputs, const std::string& name = {},
            Attributes attributes = {});
Output constant_node(Graph& g, Tensor value, const std::string& name = {});
Output feed(Graph& g, std::int64_t index, Shape shape, const std::string& name = {});
Output recv(Graph& g, std::int64_t edge, Shape shape, const std::string& name = {});
Output pull(Graph& g, std::int64_t slice, Shape shape, const std::string& name = {});
Output variable_node(Graph& g, const std::string& name, Shape shape);
void send(Graph& g, Output x, std::int64_t edge, const std::string& name = {});
void push(Graph& g, Output x, std::int64_t slice, const std::string& name = {});
void fetch(Graph& g, Output x, std::int64_t index, const std::string& name = {});

// Keeps what leaves, as it left: a later write in place would show.
class Recorder final : public Outbox {
 public:
  explicit Recorder(const Plan& plan) : plan_(plan) {}
  void send(std::uint32_t send, Tensor tensor) override {
    std::lock_guard lock(mutex_);
    sent[plan_.sends[send].edge.value] = std::move(tensor);
  }
  void push(const PushTarget& target, Tensor gradient, Tensor indices) override {
    std::lock_guard lock(mutex_);
    pushed[target.slice] = std::move(gradient);
    if (indices.valid()) push_indices[target.slice] = std::move(indices);
  }
  void ask(const AskTarget& target, Tensor rows) override {
    std::lock_guard lock(mutex_);
    asked[target.slice.slice] = std::move(rows);
  }
  void contribute(const ContributionTarget& target, Tensor tensor) override {
    std::lock_guard lock(mutex_);
    contributed.emplace_back(target.channel, std::move(tensor));
  }
  void flush() override {
    std::lock_guard lock(mutex_);
    ++flushed;
  }
  int flushed = 0;
  std::vector<std::pair<std::uint32_t, Tensor>> contributed;  // by channel, as they left
  std::map<std::uint32_t, Tensor> sent;                       // by edge
  std::map<std::uint32_t, Tensor> pushed;                     // by slice
  std::map<std::uint32_t, Tensor> push_indices;               // by slice
  std::map<std::uint32_t, Tensor> asked;                      // by slice

 private:
  const Plan& plan_;
  std::mutex mutex_;
};

// One plan with its device and variables.
class ToyTask {
 public:
  explicit ToyTask(const Graph& graph, int threads = 1);
  // On another device than a CPU, with its kernels.
  ToyTask(const Graph& graph, std::unique_ptr<Device> device, KernelRegistry (*make_kernels)(ToyHooks&));
  const Plan& plan() const { return partition->plan(); }
  Variable& variable(const std::string& name);
  // Starts a step and runs segments until none is ready. `key.step` is also the step of its RandomKey.
  void start(std::uint64_t step, const std::vector<Tensor>& feeds = {});
  void arrive(std::uint64_t step, const std::string& arrival, Tensor tensor);
  void run_ready();
  // Takes the fetches by index and forgets the step.
  std::map<std::uint32_t, Tensor> finish(std::uint64_t step);
  static StepKey key(std::uint64_t step) { return {SessionId{1}, StepId{step}}; }

  ToyHooks hooks;
  KernelRegistry kernels;
  std::unique_ptr<Device> device;
  VariableStore store;
  std::shared_ptr<RegisteredPartition> partition;
  StepTable table;
  std::vector<ReadySegment> ready;
  std::shared_ptr<PlanFrame> ready_frame;  // for a test that aborts what runs
  std::map<std::uint64_t, bool> ended;     // by step
  std::map<std::uint64_t, std::unique_ptr<Recorder>> out;
  std::function<std::size_t(std::size_t)> choose = [](std::size_t) {
    return std::size_t{0};
  };  // which of n ready ones runs

 private:
  void take(std::uint64_t step, StepTable::Progress progress);
};

}  // namespace troupe::testing
