// Activity of a task's training loop, readable without asking the loop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>

namespace troupe {

// Thread-safe: the loop writes, any thread reads.
class TrainingRecord {
 public:
  enum class Doing : std::uint8_t {
    nothing,
    joining,
    waiting_for_token,
    waiting_for_data,
    computing,
    evaluating,
    waiting_in_barrier,
    saving
  };

  // Mark the beginning and end of a job.
  void begin(std::string mode, std::uint64_t epochs);
  void end();
  // `epoch` counts from 1. `all_steps`: steps of the job, 0 if this task does not count them.
  void set_epoch(std::uint64_t epoch, std::uint64_t all_steps = 0);
  // Sets the metrics of a complete epoch, by name.
  void set_metrics(std::map<std::string, double> metrics);
  // Sets the loop's current activity; step and slot where they apply.
  void does(Doing what, std::uint64_t step = 0, std::uint32_t slot = 0);
  // Records a step, or a slot of one, computed since `began_ns` (steady clock) or the end of the previous one. `loss`:
  // mean over its examples.
  void computed(std::uint64_t step, std::uint32_t slot, std::int64_t began_ns, double loss, std::uint64_t examples);
  // The loop reads pipelines that `show` tells of; null: no more, and once this returns no call of it goes on.
  void set_pipelines(std::function<std::vector<PipelineSnapshot>()> show);
  std::vector<PipelineSnapshot> pipelines() const;
  // Returns nullopt before the first job.
  std::optional<TrainingSnapshot> snapshot() const;

 private:
  static constexpr std::size_t kRecent = 128;
  mutable std::mutex mutex_;
  bool begun_ = false;
  TrainingSnapshot now_;  // without `recent`, `doing`
  Doing doing_ = Doing::nothing;
  std::uint64_t doing_step_ = 0;
  std::uint32_t doing_slot_ = 0;
  std::int64_t since_ns_ = 0;
  std::int64_t ended_ns_ = 0;  // of the last step
  std::uint64_t recorded_ = 0;
  std::array<StepRecord, kRecent> recent_;  // begin_ns: steady clock
  mutable std::mutex pipelines_mutex_;      // held during calls of the next
  std::function<std::vector<PipelineSnapshot>()> show_pipelines_;
};

}  // namespace troupe
