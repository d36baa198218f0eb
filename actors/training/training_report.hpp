// The default reports of fit() on stderr: progress, a line for each epoch, and for events that its user should know.
#pragma once

#include <string>

#include <troupe/actors/training/job.hpp>

namespace troupe {

// "Epoch 1/5: loss 0.4321, train accuracy 0.8712, test accuracy 0.9012, 41000 images/s".
std::string to_string(const EpochLogs& epoch, int epochs);

// Adds callbacks that print where there are none, unless `quiet`; and, on the chief, a warning about losses that are
// not finite.
TrainingOptions with_reports(TrainingOptions options);

// Reports an event of this kind.
void tell_warning(const TrainingOptions& options, const std::string& kind, const std::string& text);

}  // namespace troupe
