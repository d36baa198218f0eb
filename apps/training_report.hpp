// Reports of training as JSON for programs, without the newline. Figures that are not finite become null.
#pragma once

#include <chrono>
#include <string>

#include <troupe/actors/training/job.hpp>

namespace troupe {

// {"event":"epoch","epoch":1,"loss":...,"val_loss":...,"examples_per_second":...}, with all figures of the epoch.
// Epochs count from 1 here.
std::string figures_json(const EpochLogs& epoch);
// {"event":"final",<figures>,"steps":...,"examples_per_second":...,"params_sha256":"..."}
std::string figures_json(const Figures& figures, const TrainingResult& result);
// {"event":"lost","time":1700000000.123456,"task":"/job:worker/task:1","step":12,"seconds":0,"text":"...","counts":{}}
// The time is in seconds since 1970; fields that the event does not have are left out.
std::string event_json(const JobEvent& event, std::chrono::system_clock::time_point time);

}  // namespace troupe
