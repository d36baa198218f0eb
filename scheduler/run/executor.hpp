// Runs segments of plans. Called on the compute thread of the plan's device; sends no actor messages itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {

// Receives the tensors that leave a running segment. Called on the device's thread; must not block.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // `send` is the index in Plan::sends.
  virtual void send(std::uint32_t send, Tensor tensor) = 0;
  // Pushes a gradient to a shard; `indices` is invalid for a dense gradient.
  virtual void push(const PushTarget& target, Tensor gradient, Tensor indices) = 0;
  // Asks a shard for rows (i64 [n]) of a slice.
  virtual void ask(const AskTarget& target, Tensor rows) = 0;
  // Calls a resource with a list of tensors.
  virtual void call(const CallTarget& target, Variable& resource, Tensor values) {
    fail(Code::internal, "'{}' cannot be called here: edge {} with {}", resource.name(), target.edge.value,
         values.to_string());
  }
  // Contributes a tensor to a collective.
  virtual void contribute(const ContributionTarget& target, Tensor tensor) = 0;
  // Sends queued tensors now instead of waiting for later ones.
  virtual void flush() = 0;
};

// Decides when a loop pauses, so that others get the device. Called on the device's thread, between iterations.
class Pauses {
 public:
  virtual ~Pauses() = default;
  virtual bool wanted() = 0;
};

class LoopRun;
class SegmentReplay;

// The variables of one (session, device), or of one (container, device), which several sessions share, or of eager
// mode; pointers stay valid as long as it.
class VariableStore {
 public:
  // Finds or creates a variable or resource. Throws invalid_argument if it exists with another dtype or shape, or as
  // another resource.
  Variable& get(const VariableDecl& decl);
  // Adds one that exists, under a name that is not taken.
  void share(const std::string& name, std::shared_ptr<Variable> variable);

 private:
  std::mutex mutex_;  // plans are bound by several actors; only the device's thread touches values
  std::map<std::string, std::shared_ptr<Variable>, std::less<>> variables_;
};

// One execution of a plan: its values and their memory. Reused from step to step. The plan and the variables must
// outlive it.
//
// Threads: between begin() and clear() a slot belongs to the device's threads once a segment that may touch it is
// ready; before that, slots of arrivals and feeds belong to the scheduler. Both may use `aborted` and `current_node` at
// any time.
class PlanFrame {
 public:
  // `owner` keeps the plan and the variables alive: a segment may outlast its session.
  PlanFrame(const Plan& plan, std::vector<Variable*> variables, std::shared_ptr<const void> owner = nullptr);
  ~PlanFrame();

  // Call before a step, with its key for random numbers.
  void begin(RandomKey random);
  // Call after a step: releases all tensors, including those left by a failed branch. Keeps the memory plan's blocks.
  void clear();
  // Gives the memory plan's blocks back; the next step gets new ones.
  void release_blocks();
  // Whether a loop has paused: the segment has not ended.
  bool paused() const { return resume_at != kIdle; }

  const Plan& plan() const { return plan_; }
  std::vector<Tensor> slots;
  std::vector<Tensor> fetches;      // by position in plan.fetch_indices
  std::vector<std::uint16_t> uses;  // uses left, of counted slots
  std::vector<Variable*> variables;
  std::vector<std::unique_ptr<PlanFrame>> branch_frames;  // two for each branch; null until first used
  std::vector<std::unique_ptr<LoopRun>> loops;            // with the frames of their bodies
  std::vector<BufferRef> blocks;                          // of the memory plan; empty until first used
  std::vector<std::unique_ptr<SegmentReplay>> replays;    // by segment; empty until first used
  RandomKey random;
  std::atomic<bool> aborted{false};  // set by other threads: stop at the next node
  static constexpr std::uint32_t kIdle = 0xffffffffu;
  std::uint32_t resume_at = kIdle;                 // the node that has paused
  std::atomic<std::uint32_t> current_node{kIdle};  // for observers
  std::atomic<std::int64_t> iteration{0};          // of the loop whose body this runs; likewise
  // That node, "MatMul 'dense/matmul'" or "Loop 'solve', iteration 12: MatMul 'solve/matmul'"; "" if none. Any thread.
  std::string running() const;

 private:
  const Plan& plan_;
  std::shared_ptr<const void> owner_;
};

// Runs segment `segment` of the frame's plan from start to end. Nodes run one after another, or in parallel if the plan
// allows it and the device has several threads; results are the same. Returns the error of the node that failed, naming
// op, node and device; Code::cancelled for an aborted frame. If `pauses` wants it, returns without an error in the
// middle of a loop: the frame is then paused, and the next call goes on from there. Null: loops run to their end.
Error run_segment(PlanFrame& frame, std::uint32_t segment, Device& device, Outbox& outbox, Pauses* pauses = nullptr);

}  // namespace troupe
