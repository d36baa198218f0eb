#include "messages/frames.hpp"

#include <array>

namespace troupe {

std::string_view kind_name(const Frame& frame) {
  static constexpr std::array<std::string_view, std::variant_size_v<Frame>> kNames = {
      "Hello",  "Heartbeat", "Credit",  "Goodbye",     "StepStart", "StepDone",       "StepAbort",
      "Put",    "Pull",      "Push",    "Join",        "TakeToken", "Token",          "TokenDone",
      "Staged", "EpochDone", "Barrier", "BarrierOpen", "JobFailed", "CollectivePart", "SharedMemoryAnswer",
      "Joined", "Leave",     "Fence",   "Commit",      "Save",      "Saved"};
  return kNames[frame.index()];
}

}  // namespace troupe
