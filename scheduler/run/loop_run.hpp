// The run of a Loop: its body's plan once for each iteration, in one frame that is used again. Part of the executor.
//
// Between iterations the values are in the slots of the body's arguments. A loop that pauses keeps them there; the next
// run() goes on with the iteration that was next, or, if a loop inside of its body has paused, in the middle of one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <troupe/scheduler/run/node_context.hpp>

namespace troupe {

class LoopRun {
 public:
  explicit LoopRun(const Plan::Loop& loop);

  // Runs the Loop that the context has entered. Returns false if it has paused. Throws what the body fails with.
  bool run(PlanFrame& frame, NodeContext& context, const Surroundings& around);
  // Releases all tensors.
  void clear();
  void release_blocks() { inner_.release_blocks(); }
  const PlanFrame& body() const { return inner_; }  // for observers

 private:
  enum class State : std::uint8_t { idle, between, in_iteration };

  void begin(NodeContext& context, Device& device);
  bool go_on(const PlanFrame& frame, const Surroundings& around);
  void take_inputs(NodeContext& context, std::int64_t limit);
  void begin_iteration(RandomKey random, Device& device);
  bool end_iteration(Device& device);
  Tensor take_result(std::size_t result);
  void let_go_of_block(std::size_t result, const Tensor& taken);
  Tensor index_tensor(Device& device);
  void set_outputs(NodeContext& context, Device& device);
  std::uint32_t slot(std::size_t argument) const { return plan_.argument_slots[argument]; }

  const Plan::Loop& loop_;
  const Plan& plan_;  // of the body
  PlanFrame inner_;
  State state_ = State::idle;
  bool more_ = false;            // the condition
  std::int64_t iterations_ = 0;  // at most
  std::int64_t done_ = 0;
  std::int64_t index_ = 0;  // of the iteration
  std::vector<Tensor> scanned_;
  std::vector<Tensor> next_;                // values on their way to their slots
  std::vector<std::vector<Tensor>> items_;  // by list
};

}  // namespace troupe
