// Tracks the steps in flight on a task: which segments may run now, the first error, and when all parts of a step, here
// and on other tasks, have ended. A plain class, driven by the scheduler actor. Every call returns what to do next;
// nothing here blocks or runs kernels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <troupe/messages/ids.hpp>
#include <troupe/scheduler/plan/plan.hpp>
#include <troupe/scheduler/run/executor.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

// A registered partition: its plan, and frames to run it in. Only the scheduler's thread calls take_frame and
// give_back.
class RegisteredPartition {
 public:
  // `store` owns the variables.
  RegisteredPartition(std::shared_ptr<const Plan> plan, std::vector<Variable*> variables,
                      std::shared_ptr<VariableStore> store = nullptr)
      : plan_(std::move(plan)), variables_(std::move(variables)), store_(std::move(store)) {}
  const Plan& plan() const { return *plan_; }
  std::shared_ptr<PlanFrame> make_frame() const;
  // Returns an unused frame, creating one if needed. Give it back after the step.
  std::shared_ptr<PlanFrame> take_frame();
  void give_back(std::shared_ptr<PlanFrame> frame);

 private:
  std::shared_ptr<const Plan> plan_;
  std::vector<Variable*> variables_;
  std::shared_ptr<VariableStore> store_;
  std::vector<std::shared_ptr<PlanFrame>> free_;
};

struct StepKey {
  SessionId session;
  StepId step;
  auto operator<=>(const StepKey&) const = default;
};

// A segment to run on the device of partition `partition`. The frame keeps everything it uses alive, even if the step
// ends first.
struct ReadySegment {
  StepKey step;
  std::uint32_t partition = 0;
  std::uint32_t segment = 0;
  std::shared_ptr<PlanFrame> frame;
};

// Facts about a step that waiting() needs and the table lacks.
struct StepPlace {
  std::string task;                       // this task
  std::string text;                       // the step, for display: "step 7"
  std::int64_t for_ns = 0;                // since it began here
  std::vector<std::string> shards;        // their tasks, by number
  std::uint64_t job = 0;                  // a training job; 0: none
  std::uint64_t version = 0;              // of the parameters it pulls
  std::uint64_t group = 0, sequence = 0;  // of its collectives
};

// The steps in flight on one task.
class StepTable {
 public:
  struct Progress {
    std::vector<ReadySegment> ready;
    // This call set the step's first error: tell all participants, now and only now.
    bool failed = false;
    // The step is over: call finish(). Without an error, all segments have run and all other parts have ended. After an
    // error, no segment is running; other parts may still be.
    bool ended = false;
  };
  // The outcome of a step. `fetches`, by fetch index, is empty after an error.
  struct Result {
    Error error;
    std::vector<std::pair<std::uint32_t, Tensor>> fetches;
  };

  // Starts a step over `partitions`; `feeds` by feed index. `other_parts`: number of other tasks that run the step.
  // Throws already_exists, or invalid_argument for a missing feed, without starting anything.
  Progress start(const StepKey& key, std::vector<std::shared_ptr<RegisteredPartition>> partitions, RandomKey random,
                 const std::vector<Tensor>& feeds, std::uint32_t other_parts = 0);
  // Delivers the tensor of an arrival. A wrong dtype or shape aborts the step with an error.
  Progress arrived(const StepKey& key, std::uint32_t partition, std::uint32_t arrival, Tensor tensor);
  // Reports that a ready segment has run, with its error if any.
  Progress segment_done(const StepKey& key, std::uint32_t partition, std::uint32_t segment, const Error& error);
  // Reports that the part of another task (0 .. other_parts - 1) has ended, with its error if any.
  Progress part_ended(const StepKey& key, std::uint32_t part, const Error& error);
  // Aborts the step; only the first error counts. Segments that have not begun never will.
  Progress abort(const StepKey& key, const Error& error);

  bool contains(const StepKey& key) const { return steps_.contains(key); }
  bool empty() const { return steps_.empty(); }
  Error error(const StepKey& key) const;
  // Whether this task's part has ended, and which other parts have not.
  bool own_part_ended(const StepKey& key) const;
  std::vector<std::uint32_t> parts_left(const StepKey& key) const;
  // Number of the partition's segments that are ready or running and have not reported.
  std::size_t running(const StepKey& key, std::uint32_t partition) const;
  // Lists what the step waits for on this task: missing arrivals, running nodes, segments in a device's queue.
  std::vector<std::string> waits_for(const StepKey& key) const;
  // The same as things and waits (wait_graph.hpp): this task's part, its segments that have not run, what they wait
  // for, and what other tasks await from them. Empty for an unknown step.
  Waiting waiting(const StepKey& key, const StepPlace& place) const;
  // The running nodes, by device.
  std::map<std::string, std::string> running() const;
  // Forgets a step. Its frames are reused, except those with running segments (a task shutting down does not wait).
  Result finish(const StepKey& key);
  std::vector<StepKey> steps_of(SessionId session) const;

 private:
  static constexpr std::uint32_t kHasRun = 0xffffffffu;
  struct PartitionState {
    std::shared_ptr<RegisteredPartition> registered;
    std::shared_ptr<PlanFrame> frame;
    std::vector<std::uint32_t> waits;  // left, by segment; or kHasRun
    std::vector<bool> arrived;
    std::size_t running = 0;  // segments handed out that have not reported
  };
  struct Step {
    std::vector<PartitionState> partitions;
    std::size_t segments_left = 0;          // not yet run
    std::size_t running = 0;                // of all partitions
    std::vector<std::uint32_t> parts_left;  // of other tasks
    Error error;
    bool aborted() const { return static_cast<bool>(error); }
    bool own_part_ended() const { return running == 0 && (segments_left == 0 || aborted()); }
    bool ended() const { return own_part_ended() && (parts_left.empty() || aborted()); }
  };
  void release(const StepKey& key, Step& step, std::uint32_t partition, std::uint32_t segment, Progress& progress);
  static void abort_step(Step& step, const Error& error, Progress& progress);

  std::map<StepKey, Step> steps_;
};

}  // namespace troupe
