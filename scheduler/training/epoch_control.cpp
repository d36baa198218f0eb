#include "troupe/scheduler/training/epoch_control.hpp"

namespace troupe {

void EpochDecisions::replay(const std::vector<EpochRecord>& history) {
  for (const EpochRecord& record : history) {
    EpochDone epoch{.epoch = static_cast<std::uint32_t>(history_.size()),
                    .training = record.training,
                    .evaluation = record.evaluation};
    decide(epoch);
  }
}

void EpochDecisions::decide(EpochDone& epoch) {
  if (!control_) return;
  history_.push_back({epoch.training, epoch.evaluation});
  epoch.decision = last_ = control_(epoch);
  kept_ = kept_ || last_.keep;
}

}  // namespace troupe
