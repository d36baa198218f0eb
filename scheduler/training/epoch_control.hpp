// Decides after each epoch how a training goes on, as a function of the figures so far. Runs where epochs end: in the
// coordinator, in each rank of an all-reduce, or in local training. A job that resumes decides again, from the figures
// in its checkpoint.
#pragma once

#include <functional>
#include <vector>

#include <troupe/messages/epoch_done.hpp>

namespace troupe {

// Called once for each epoch, in order; it may keep a state.
using EpochControl = std::function<EpochDecision(const EpochDone&)>;

// The figures of an epoch, for JobState.
struct EpochRecord {
  NamedSums training;
  NamedSums evaluation;
  bool operator==(const EpochRecord&) const = default;
};

// The decisions of a job so far.
class EpochDecisions {
 public:
  EpochDecisions() = default;
  explicit EpochDecisions(EpochControl control) : control_(std::move(control)) {}

  bool any() const { return control_ != nullptr; }
  // Decides again what was decided after these epochs.
  void replay(const std::vector<EpochRecord>& history);
  // Sets `epoch.decision`.
  void decide(EpochDone& epoch);

  const std::vector<EpochRecord>& history() const { return history_; }  // empty without a control
  const EpochDecision& last() const { return last_; }
  // Whether training would end with kept values that are not those of now.
  bool has_kept() const { return kept_ && !last_.keep; }

 private:
  EpochControl control_;
  std::vector<EpochRecord> history_;
  EpochDecision last_;
  bool kept_ = false;  // some epoch was
};

}  // namespace troupe
