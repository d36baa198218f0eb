// What fit() says by itself: a line for each epoch, and what its user should know, on stderr.
#pragma once

#include <string>

#include <troupe/actors/training/job.hpp>

namespace troupe {

// "Epoch 1/5: loss 0.4321, train accuracy 0.8712, test accuracy 0.9012, 41000 images/s".
std::string to_string(const EpochDone& epoch, int epochs);

// The options with callbacks that write where there are none, unless `quiet`; and, on the chief, a warning of losses
// that are not finite.
TrainingOptions with_reports(TrainingOptions options);

// An event of this kind.
void tell_warning(const TrainingOptions& options, const std::string& kind, const std::string& text);

}  // namespace troupe
