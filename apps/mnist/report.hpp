// Reports of troupe-mnist about epochs and results: lines for people, or with --json for programs. All without the
// newline.
#pragma once

#include <string>

#include <troupe/actors/training/job.hpp>

namespace troupe {

// {"event":"epoch","epoch":1,"loss":...,"train_accuracy":...,"test_accuracy":...,"images_per_second":...}
// Epochs count from 1 here. Figures that are not finite become null.
std::string epoch_json(const EpochLogs& epoch);
// {"event":"final","test_accuracy":...,"steps":...,"seconds":...,"images_per_second":...,"params_sha256":"..."}
std::string final_json(const TrainingResult& result);
// Two lines; the second is "Test accuracy: 0.9780".
std::string final_text(const TrainingResult& result);

}  // namespace troupe
