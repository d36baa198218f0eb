#include "troupe/messages/frames.hpp"

#include <array>

namespace troupe {

Frame::Frame() = default;
Frame::Frame(const Frame& other) = default;
Frame::Frame(Frame&& other) noexcept = default;
Frame& Frame::operator=(const Frame& other) = default;
Frame& Frame::operator=(Frame&& other) noexcept = default;
Frame::~Frame() = default;

std::string_view kind_name(const Frame& frame) {
  static constexpr std::array<std::string_view, std::variant_size_v<FrameVariant>> kNames = {
      "Hello",  "Heartbeat", "Credit",  "Goodbye",     "StepStart", "StepDone",       "StepAbort",
      "Put",    "Pull",      "Push",    "Join",        "TakeToken", "Token",          "TokenDone",
      "Staged", "EpochDone", "Barrier", "BarrierOpen", "JobFailed", "CollectivePart", "SharedMemoryAnswer",
      "Joined", "Leave",     "Fence",   "Commit",      "Save",      "Saved",          "ControlBytes"};
  return kNames[frame.index()];
}

}  // namespace troupe
