// The pipelines that a training loop reads in place, for snapshots: the loop notes its reads, any thread looks.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/data/stage_rates.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

class InPlaceReads {
 public:
  // `evaluation`: null if there is none.
  InPlaceReads(const BatchSource* train, const BatchSource* evaluation)
      : training_{.data = "training", .source = train}, evaluation_{.data = "evaluation", .source = evaluation} {}

  // For the loop: a batch is read from now on, and no longer. Next to no cost, except once a second.
  void begin(bool evaluation, std::int64_t now_ns);
  void end(bool evaluation, bool made);
  // For the loop: others make its batches.
  void leave();

  // Of the data that have been read here since leave(), those with stages.
  std::vector<PipelineSnapshot> show() const;

 private:
  struct Data {
    const char* data;
    const BatchSource* source;
    std::atomic<bool> shown{false}, reading{false};
    std::atomic<std::uint64_t> made{0};
    std::int64_t sampled_ns = 0;  // the loop's
    mutable std::mutex mutex{};
    StageRates rates{};  // guarded by it
  };
  Data& of(bool evaluation) { return evaluation ? evaluation_ : training_; }

  Data training_, evaluation_;
};

}  // namespace troupe
